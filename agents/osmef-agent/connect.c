#include "connect.h"

#include "clock.h"
#include "resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* So many connections are on their way at a time: fewer than the listening end has room for, so
 * that it never takes ours for those of a flood. */
#define CROWD 128

enum stage { CONNECTING, WAITING, READY };

/* The job with its parameters and what becomes of them. */
struct attempt {
    struct job *job;
    const struct link_params *params;
    struct link *link;
    int64_t deadline_ns;
};

static bool connect_failed(const struct attempt *a, int flow, int why)
{
    const char *host = a->params->host;
    const int port = a->params->port;
    if (why == ECONNREFUSED)
        return job_fail(a->job, "connect", flow,
                        "connection refused: is `osmef-agent recv` running on %s, port %d?", host,
                        port);
    if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM)
        return job_fail(a->job, "resource", flow,
                        "no socket: %s; try fewer flows or raise the limits", strerror(why));
    return job_fail(a->job, "connect", flow, "can't connect to %s port %d: %s", host, port,
                    strerror(why));
}

static bool begin_connect(const struct attempt *a, int flow, const struct place *place)
{
    const int fd = options_socket(a->job, &a->params->options, place->address.any.sa_family, flow);
    if (fd < 0)
        return false;
    a->link->fds[flow] = fd;
    linger_reset(fd, true);
    if (connect(fd, &place->address.any, place->size) < 0 && errno != EINPROGRESS)
        return connect_failed(a, flow, errno);
    return true;
}

/* The connection is there, or has failed: present the cookie. */
static bool present(const struct attempt *a, int flow)
{
    const int fd = a->link->fds[flow];
    int why = 0;
    socklen_t length = sizeof why;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length) < 0)
        why = errno;
    if (why)
        return connect_failed(a, flow, why);
    unsigned char text[OPENING_SIZE];
    opening_write(&a->params->opening, flow, text);
    if (send(fd, text, sizeof text, MSG_NOSIGNAL) != sizeof text)
        return connect_failed(a, flow, errno);
    return true;
}

static bool read_answer(const struct attempt *a, int flow)
{
    const int fd = a->link->fds[flow];
    char answer = 0;
    if (recv(fd, &answer, 1, 0) != 1 || answer != ADMITTED)
        return job_fail(
            a->job, "cookie", flow,
            "the receiver did not admit the connection; do both sides have the same cookie?");
    const int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return true;
}

static bool advance(const struct attempt *a, int flow, enum stage *stage)
{
    const bool ok = *stage == CONNECTING ? present(a, flow) : read_answer(a, flow);
    *stage = *stage == CONNECTING ? WAITING : READY;
    return ok;
}

static bool connect_to(const struct attempt *a, const struct place *place)
{
    static struct pollfd fds[1 + MAX_FLOWS];
    enum stage stages[MAX_FLOWS] = {CONNECTING};
    const int flows = a->params->opening.flows;
    int begun = 0;
    for (int ready = 0; ready < flows;) {
        for (; begun < flows && begun - ready < CROWD; begun++)
            if (!begin_connect(a, begun, place))
                return false;
        /* Only those that are there: poll(2) takes no more entries than there may be descriptors.
         */
        for (int i = 0; i < begun; i++)
            fds[1 + i] = (struct pollfd){
                .fd = stages[i] == READY ? -1 : a->link->fds[i],
                .events = stages[i] == CONNECTING ? POLLOUT : POLLIN,
            };
        control_wait(a->job->control, fds, (nfds_t)begun + 1, a->deadline_ns);
        if (job_aborted(a->job))
            return false;
        for (int i = 0; i < begun; i++) {
            if (!fds[1 + i].revents)
                continue;
            if (!advance(a, i, &stages[i]))
                return false;
            ready += stages[i] == READY;
        }
        if (ready < flows && now_ns() >= a->deadline_ns)
            return job_fail(a->job, "arm-timeout", -1,
                            "%d of %d flows were admitted by %s port %d within %g s; does a "
                            "firewall drop them?",
                            ready, flows, a->params->host, a->params->port,
                            a->params->arm_timeout_s);
    }
    return true;
}

/* A name may have several addresses: after one that can't be reached, the next is tried. */
static bool try_next(const struct attempt *a, bool there_is_one)
{
    struct failure *failure = &a->job->failure;
    if (!there_is_one || a->job->control->abort || strcmp(failure->kind, "connect") != 0)
        return false;
    failure->kind = NULL;
    link_close(a->link);
    return true;
}

bool connect_flows(struct job *job, const struct link_params *params, struct link *link)
{
    const struct attempt attempt = {job, params, link,
                                    now_ns() + seconds_ns(params->arm_timeout_s)};
    struct places found;
    if (!resolve(params->host, params->port, job->by_hand, &found))
        return job_fail(job, "connect", -1, "%s is no address; %s", params->host,
                        resolve_cure(job->by_hand));
    bool ok = false;
    for (int i = 0; i < found.count; i++) {
        ok = connect_to(&attempt, &found.at[i]);
        if (ok || !try_next(&attempt, i + 1 < found.count))
            break;
    }
    return ok;
}
