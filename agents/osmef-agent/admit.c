#include "admit.h"

#include "clock.h"
#include "errors.h"
#include "resolve.h"
#include "sockaddr.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 256
#define MAX_PENDING 256
#define HANDSHAKE_TIMEOUT_NS (2 * NS_PER_S)

/* A connection from which the handshake has not been read completely. */
struct connection {
    int fd;
    int64_t until_ns;
    size_t used;
    unsigned char text[HANDSHAKE_SIZE];
};

/* Unauthenticated connections, the oldest first, with the job that they are for. */
struct pending_connections {
    struct job *job;
    struct link_params *params;
    struct link *link;
    int admitted;
    int shortage; /* errno of the last connection that could not be accepted; 0: none */
    int count;
    struct connection at[MAX_PENDING];
};

enum { CONTROL_SLOT, LISTEN_SLOT, FIRST_SLOT, SLOTS = FIRST_SLOT + MAX_PENDING + MAX_FLOWS };

/* Removes a connection from the list and returns its descriptor. */
static int remove_connection(struct pending_connections *pending, int index)
{
    const int fd = pending->at[index].fd;
    pending->count--;
    memmove(&pending->at[index], &pending->at[index + 1],
            sizeof *pending->at * (size_t)(pending->count - index));
    return fd;
}

static void refuse(struct pending_connections *pending, int index)
{
    close(remove_connection(pending, index));
    pending->link->refused++;
}

static bool admit(struct pending_connections *pending, int index)
{
    const struct connection *connection = &pending->at[index];
    const int number = handshake_check(&pending->params->handshake, connection->text);
    const char answer = ADMITTED;
    if (number < 0 || pending->link->fds[number] >= 0)
        return false;
    linger_reset(connection->fd, true);
    if (send(connection->fd, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return false;
    pending->link->fds[number] = remove_connection(pending, index);
    pending->admitted++;
    return true;
}

/* Reads from a pending connection, and admits or refuses it once its handshake is complete. */
static void read_handshake(struct pending_connections *pending, int index)
{
    struct connection *connection = &pending->at[index];
    const ssize_t n = recv(connection->fd, connection->text + connection->used,
                           HANDSHAKE_SIZE - connection->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        connection->used += (size_t)n;
        if (connection->used < HANDSHAKE_SIZE)
            return;
        if (admit(pending, index))
            return;
    }
    refuse(pending, index);
}

static bool fail_resources(struct pending_connections *pending)
{
    return job_fail(pending->job, "resource", -1,
                    "no room for more than %d of %d flows: %s; try fewer connections or raise the limits",
                    pending->admitted, pending->params->handshake.flows,
                    strerror(pending->shortage));
}

/* Accepts one connection from the queue. When the list is full the oldest one is refused: a flow of
 * the job sends its handshake at once and so never becomes the oldest. */
static bool accept_one(struct pending_connections *pending, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && is_resource_error(errno)) {
        pending->shortage = errno;
        if (pending->count == 0)
            return fail_resources(pending);
        refuse(pending, 0);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    if (fd < 0)
        return false;
    if (pending->count == MAX_PENDING)
        refuse(pending, 0);
    pending->at[pending->count++] =
        (struct connection){.fd = fd, .until_ns = now_ns() + HANDSHAKE_TIMEOUT_NS};
    read_handshake(pending, pending->count - 1);
    return true;
}

static int64_t next_deadline(const struct pending_connections *pending, int64_t deadline_ns)
{
    return pending->count > 0 && pending->at[0].until_ns < deadline_ns ? pending->at[0].until_ns
                                                                       : deadline_ns;
}

/* Waits for the first event. Returns the admitted flow that the peer has closed, or -1. */
static int watch(struct pending_connections *pending, int listener, int64_t deadline_ns)
{
    static struct pollfd fds[SLOTS];
    static int flows[SLOTS];
    const int count = pending->count;
    nfds_t used = FIRST_SLOT;
    fds[LISTEN_SLOT] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < count; i++)
        fds[used++] = (struct pollfd){.fd = pending->at[i].fd, .events = POLLIN};
    /* Only open ones: poll(2) accepts no more entries than RLIMIT_NOFILE. */
    for (int i = 0; i < MAX_FLOWS; i++) {
        if (pending->link->fds[i] < 0)
            continue;
        flows[used] = i;
        fds[used++] = (struct pollfd){.fd = pending->link->fds[i], .events = POLLRDHUP};
    }
    control_wait(pending->job->control, fds, used, next_deadline(pending, deadline_ns));

    for (nfds_t i = FIRST_SLOT + (nfds_t)count; i < used; i++)
        if (fds[i].revents)
            return flows[i];
    /* Backwards, since the removal of a connection moves those after it. */
    for (int i = count - 1; i >= 0; i--)
        if (fds[FIRST_SLOT + i].revents)
            read_handshake(pending, i);
    while (pending->count > 0 && pending->at[0].until_ns <= now_ns())
        refuse(pending, 0);
    return -1;
}

static bool all_admitted(const struct pending_connections *pending)
{
    return pending->params->handshake.flows > 0 &&
           pending->admitted == pending->params->handshake.flows;
}

static bool admit_all(struct pending_connections *pending, int listener)
{
    struct job *job = pending->job;
    const double timeout_s = pending->params->arm_timeout_s;
    const int64_t deadline_ns = job->standalone ? FOREVER : now_ns() + seconds_ns(timeout_s);
    while (!all_admitted(pending)) {
        const int closed = watch(pending, listener, deadline_ns);
        if (job_aborted(job))
            return false;
        /* A flow of the job may have been refused for lack of resources. */
        if ((closed >= 0 || now_ns() >= deadline_ns) && pending->shortage)
            return fail_resources(pending);
        if (closed >= 0)
            return job_fail(job, "reset", closed,
                            "the sender left before all flows were connected");
        if (now_ns() >= deadline_ns)
            return job_fail(
                job, "arm-timeout", -1,
                "%d of %d flows came within %g s; can the sender reach this address and port?",
                pending->admitted, pending->params->handshake.flows, timeout_s);
        /* Bounded, so that a flood of connections can't delay the check of the deadlines. */
        for (int i = 0; i < MAX_PENDING && !all_admitted(pending) && accept_one(pending, listener);
             i++)
            ;
        if (job->failure.kind)
            return false;
    }
    return true;
}

/* Returns the listening socket, or -1 with the job failed. */
static int listen_at(struct job *job, const struct link_params *params,
                     const struct socket_address *address)
{
    const int on = 1, off = 0;
    const int fd = options_socket(job, &params->options, address->sockaddr.any.sa_family, -1);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sockaddr.any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, &address->sockaddr.any, address->size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    job_fail(job, "bind", -1, "can't listen on %s port %d: %s", params->host, params->port,
             strerror(errno));
    close(fd);
    return -1;
}

static int open_listener(struct job *job, const struct link_params *params)
{
    struct address_list found;
    if (!resolve(params->host, params->port, false, &found)) {
        job_fail(job, "bind", -1, "%s is no address; %s", params->host, resolve_cure(false));
        return -1;
    }
    return listen_at(job, params, &found.at[0]);
}

static int port_of(int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        return 0;
    return ntohs(*port_in(&address));
}

bool admit_flows(struct job *job, struct link_params *params, struct link *link)
{
    static struct pending_connections pending;
    const int listener = open_listener(job, params);
    if (listener < 0)
        return false;
    pending.job = job;
    pending.params = params;
    pending.link = link;
    pending.count = 0;
    pending.admitted = 0;
    pending.shortage = 0;
    job->report->listening(job, params->host, port_of(listener));
    const bool ok = admit_all(&pending, listener);
    close(listener);
    while (pending.count > 0)
        refuse(&pending, 0);
    return ok;
}
