#include "link.h"

#include "admit.h"
#include "clock.h"
#include "errors.h"
#include "resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static const struct field listening_fields[] = {
#define FIELDS_OF struct link_params
    COOKIE("cookie", handshake.cookie),
    TEXT("bind", host),
    WHOLE("port", port, 0, 65535, NEEDED),
    FIELDS_END,
};
static const struct field connecting_fields[] = {
    COOKIE("cookie", handshake.cookie),
    TEXT("host", host),
    WHOLE("port", port, 1, 65535, NEEDED),
    FIELDS_END,
};
static const struct field common_fields[] = {
    WHOLE("connections", connections, 1, MAX_FLOWS, NEEDED),
    NUMBER("arm_timeout_s", arm_timeout_s, SHORTEST_S, LONGEST_S, NEEDED),
    NUMBER("stall_timeout_s", stall_timeout_s, SHORTEST_S, LONGEST_S, NEEDED),
    FIELDS_END,
#undef FIELDS_OF
};

static bool read_side(const struct json_object *command, bool *listens, char *problem)
{
    enum { LISTEN, CONNECT };
    static const char *const sides[] = {"listen", "connect", NULL};
    struct side {
        int index;
    } side;
#define FIELDS_OF struct side
    static const struct field fields[] = {WORD("side", index, sides, NEEDED), FIELDS_END};
#undef FIELDS_OF
    if (!fields_read(command, fields, &side, problem))
        return false;
    *listens = side.index == LISTEN;
    return true;
}

bool link_read(const struct json_object *command, struct link_params *params, char *problem)
{
    if (!read_side(command, &params->listens, problem) ||
        !fields_read(command, params->listens ? listening_fields : connecting_fields, params,
                     problem) ||
        !fields_read(command, common_fields, params, problem) ||
        !options_read(command, &params->options, problem))
        return false;
    params->handshake.flows = params->connections;
    return true;
}

/* How many connections may be incomplete at a time: fewer than MAX_PENDING of the listening end, so
 * that it does not refuse any of them as part of a flood. */
#define MAX_INCOMPLETE 128

enum stage { CONNECTING, WAITING, READY };

/* An attempt to connect: the job with its parameters and the result. */
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
    if (is_resource_error(why))
        return job_fail_socket(a->job, "resource", flow, why, "flows");
    return job_fail(a->job, "connect", flow, "can't connect to %s port %d: %s", host, port,
                    strerror(why));
}

static bool begin_connect(const struct attempt *a, int flow, const struct socket_address *address)
{
    const int fd =
        options_socket(a->job, &a->params->options, address->sockaddr.any.sa_family, flow);
    if (fd < 0)
        return false;
    a->link->fds[flow] = fd;
    linger_reset(fd, true);
    if (connect(fd, &address->sockaddr.any, address->size) < 0 && errno != EINPROGRESS)
        return connect_failed(a, flow, errno);
    return true;
}

/* Sends the handshake once the connection is established. Fails if it could not be. */
static bool present(const struct attempt *a, int flow)
{
    const int fd = a->link->fds[flow];
    int why = 0;
    socklen_t length = sizeof why;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length) < 0)
        why = errno;
    if (why)
        return connect_failed(a, flow, why);
    unsigned char text[HANDSHAKE_SIZE];
    handshake_write(&a->params->handshake, flow, text);
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

static bool connect_to(const struct attempt *a, const struct socket_address *address)
{
    static struct pollfd fds[1 + MAX_FLOWS];
    enum stage stages[MAX_FLOWS] = {CONNECTING};
    const int flows = a->params->handshake.flows;
    int begun = 0;
    for (int ready = 0; ready < flows;) {
        for (; begun < flows && begun - ready < MAX_INCOMPLETE; begun++)
            if (!begin_connect(a, begun, address))
                return false;
        /* Only open ones: poll(2) accepts no more entries than RLIMIT_NOFILE. */
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

static bool connect_flows(struct job *job, const struct link_params *params, struct link *link)
{
    const struct attempt attempt = {job, params, link,
                                    now_ns() + seconds_ns(params->arm_timeout_s)};
    struct address_list found;
    if (!resolve_peer(job, params->host, params->port, &found))
        return false;
    bool ok = false;
    for (int i = 0; i < found.count; i++) {
        ok = connect_to(&attempt, &found.at[i]);
        if (ok || !try_next(&attempt, i + 1 < found.count))
            break;
    }
    return ok;
}

bool link_open(struct job *job, struct link_params *params, struct link *link)
{
    link->flows = 0;
    link->refused = 0;
    for (int i = 0; i < MAX_FLOWS; i++)
        link->fds[i] = -1;
    const bool ok =
        params->listens ? admit_flows(job, params, link) : connect_flows(job, params, link);
    link->flows = params->handshake.flows;
    if (!ok)
        link_close(link);
    return ok;
}

int link_watch(struct job *job, const struct link *link, int first, int count, int wake,
               int64_t until_ns)
{
    static struct pollfd fds[2 + MAX_FLOWS];
    eventfd_t ended;
    fds[1] = (struct pollfd){.fd = wake, .events = POLLIN};
    for (int i = 0; i < count; i++)
        fds[2 + i] = (struct pollfd){.fd = link->fds[first + i], .events = POLLIN | POLLRDHUP};
    control_wait(job->control, fds, (nfds_t)count + 2, until_ns);
    if (fds[1].revents)
        eventfd_read(wake, &ended);
    for (int i = 0; i < count; i++)
        if (fds[2 + i].revents)
            return first + i;
    return -1;
}
