#include "connect.h"

#include "clock.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum stage { CONNECTING, WAITING, READY };

static bool connect_failed(struct job *job, int flow, int why)
{
    const struct params *p = &job->params;
    if (why == ECONNREFUSED)
        return job_fail(job, "connect", flow,
                        "connection refused: is `osmef-agent recv` running on %s, port %d?",
                        p->host, p->port);
    if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM)
        return job_fail(job, "resource", flow, "no socket: %s; try fewer flows or raise the limits",
                        strerror(why));
    return job_fail(job, "connect", flow, "can't connect to %s port %d: %s", p->host, p->port,
                    strerror(why));
}

static bool begin_connect(struct job *job, struct flow *flow, const struct addrinfo *address)
{
    flow->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (flow->fd < 0)
        return connect_failed(job, flow->index, errno);
    wire_linger_reset(flow->fd, true);
    if (connect(flow->fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS)
        return connect_failed(job, flow->index, errno);
    return true;
}

/* The connection is there, or has failed: present the cookie. */
static bool present(struct job *job, struct flow *flow)
{
    int why = 0;
    socklen_t length = sizeof why;
    if (getsockopt(flow->fd, SOL_SOCKET, SO_ERROR, &why, &length) < 0)
        why = errno;
    if (why)
        return connect_failed(job, flow->index, why);
    unsigned char header[HEADER_SIZE];
    wire_header(&job->params, flow->index, header);
    if (send(flow->fd, header, sizeof header, MSG_NOSIGNAL) != sizeof header)
        return connect_failed(job, flow->index, errno);
    return true;
}

static bool read_answer(struct job *job, struct flow *flow)
{
    char answer = 0;
    if (recv(flow->fd, &answer, 1, 0) != 1 || answer != ADMITTED)
        return job_fail(
            job, "cookie", flow->index,
            "the receiver did not admit the connection; do both sides have the same cookie?");
    const int flags = fcntl(flow->fd, F_GETFL);
    fcntl(flow->fd, F_SETFL, flags & ~O_NONBLOCK);
    return true;
}

static bool advance(struct job *job, struct flow *flow, enum stage *stage)
{
    const bool ok = *stage == CONNECTING ? present(job, flow) : read_answer(job, flow);
    *stage = *stage == CONNECTING ? WAITING : READY;
    return ok;
}

static bool wait_admitted(struct job *job, int64_t deadline_ns)
{
    struct pollfd fds[1 + MAX_FLOWS];
    enum stage stages[MAX_FLOWS] = {CONNECTING};
    const int flows = job->params.flows;
    for (int ready = 0; ready < flows;) {
        for (int i = 0; i < flows; i++)
            fds[1 + i] = (struct pollfd){
                .fd = stages[i] == READY ? -1 : job->flows[i].fd,
                .events = stages[i] == CONNECTING ? POLLOUT : POLLIN,
            };
        control_wait(job->control, fds, (nfds_t)flows + 1, deadline_ns);
        if (job_aborted(job))
            return false;
        for (int i = 0; i < flows; i++) {
            if (!fds[1 + i].revents)
                continue;
            if (!advance(job, &job->flows[i], &stages[i]))
                return false;
            ready += stages[i] == READY;
        }
        if (ready < flows && now_ns() >= deadline_ns)
            return job_fail(job, "arm-timeout", -1,
                            "%d of %d flows were admitted by %s port %d within %g s; does a "
                            "firewall drop them?",
                            ready, flows, job->params.host, job->params.port,
                            job->params.arm_timeout_s);
    }
    return true;
}

static bool connect_to(struct job *job, const struct addrinfo *address, int64_t deadline_ns)
{
    for (int i = 0; i < job->params.flows; i++)
        if (!begin_connect(job, &job->flows[i], address))
            return false;
    return wait_admitted(job, deadline_ns);
}

/* A name may have several addresses: after one that can't be reached, the next is tried. */
static bool try_next(struct job *job, const struct addrinfo *address)
{
    if (!address->ai_next || job->control->abort || strcmp(job->failure.kind, "connect") != 0)
        return false;
    job->failure.kind = NULL;
    for (int i = 0; i < job->params.flows; i++) {
        if (job->flows[i].fd >= 0)
            close(job->flows[i].fd);
        job->flows[i].fd = -1;
    }
    return true;
}

bool connect_flows(struct job *job)
{
    char port[8];
    snprintf(port, sizeof port, "%d", job->params.port);
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        /* Names only by hand: looking one up can't be interrupted. */
        .ai_flags = AI_NUMERICSERV | (job->params.by_hand ? 0 : AI_NUMERICHOST),
    };
    struct addrinfo *found;
    const int problem = getaddrinfo(job->params.host, port, &hints, &found);
    if (problem)
        return job_fail(
            job, "connect", -1, "%s: %s; give %s", job->params.host, gai_strerror(problem),
            job->params.by_hand ? "an address or a name that resolves" : "a numeric address");
    const int64_t deadline_ns = now_ns() + seconds_ns(job->params.arm_timeout_s);
    bool ok = false;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        ok = connect_to(job, at, deadline_ns);
        if (ok || !try_next(job, at))
            break;
    }
    freeaddrinfo(found);
    return ok;
}
