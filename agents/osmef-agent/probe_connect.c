/* Requests with a connection each. */
#include "clock.h"
#include "exchange.h"
#include "probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A blocked thread checks this often whether the job was cancelled. */
#define CHECK_US 100000
/* A connection from which no header has been read after this time is refused. */
#define HEADER_TIMEOUT_NS (2 * NS_PER_S)

static void prepare(int fd)
{
    const struct timeval often = {.tv_usec = CHECK_US};
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &often, sizeof often);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &often, sizeof often);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool probe_connection(struct flow_thread *thread, const struct exchange *exchange)
{
    struct job own; /* the job itself belongs to the main thread */
    own.failure.kind = NULL;
    const int fd = options_stream(&own, &exchange->params.link.options,
                                  exchange->probes[thread->index].peer.ss_family, thread->index);
    if (fd < 0)
        return thread_fail(thread, own.failure.kind, "%s", own.failure.message);
    prepare(fd);
    thread->fd = fd;
    return true;
}

bool probe_connect(struct flow_thread *thread, const struct exchange *exchange)
{
    const struct probe *probe = &exchange->probes[thread->index];
    while (connect(thread->fd, (const struct sockaddr *)&probe->peer, probe->peer_size) < 0) {
        if (thread_is_cancelled(thread))
            return false;
        if (errno == EADDRNOTAVAIL)
            return thread_fail(thread, "resource",
                               "no free port for another connection: %s; ask at a lower rate, or "
                               "widen sysctl net.ipv4.ip_local_port_range",
                               strerror(errno));
        if (errno != EINPROGRESS && errno != EALREADY && errno != EAGAIN && errno != EINTR)
            return thread_broken(thread, errno);
    }
    return true;
}

/* With a reset, since all data has arrived: otherwise each connection would hold a port for a
 * minute (TIME-WAIT, RFC 9293, section 3.6.1). */
void probe_disconnect(struct flow_thread *thread)
{
    const int connection = thread->threads->link.fds[thread->index];
    if (thread->fd == connection)
        return;
    linger_reset(thread->fd, true);
    close(thread->fd);
    thread->fd = connection;
}

/* Each connection has another port; the rest of the address is the same. */
static bool is_peer(const struct sockaddr_storage *from, const struct sockaddr_storage *peer)
{
    if (from->ss_family != peer->ss_family)
        return false;
    if (from->ss_family == AF_INET6)
        return memcmp(&((const struct sockaddr_in6 *)from)->sin6_addr,
                      &((const struct sockaddr_in6 *)peer)->sin6_addr,
                      sizeof(struct in6_addr)) == 0;
    return ((const struct sockaddr_in *)from)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)peer)->sin_addr.s_addr;
}

/* Whether a connection begins with the job's header. */
static bool is_ours(const struct flow_thread *thread, int fd)
{
    unsigned char head[PROBE_HEADER_SIZE];
    uint64_t number;
    const int64_t until_ns = now_ns() + HEADER_TIMEOUT_NS;
    ssize_t used = 0;
    while (used < PROBE_HEADER_SIZE && now_ns() < until_ns && !thread_is_cancelled(thread)) {
        const ssize_t n = recv(fd, head + used, (size_t)(PROBE_HEADER_SIZE - used), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        used += n > 0 ? n : 0;
    }
    return probe_header_read(thread, head, used, &number);
}

/* Accepts and serves the next connection, if there still is one. Returns false after
 * thread_fail(). */
static bool serve_one(struct flow_thread *thread, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    const struct probe *probe = &exchange->probes[thread->index];
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    const int connection = thread->fd;
    const int fd = accept4(probe->fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
    if (fd < 0)
        return true;
    prepare(fd);
    if (!is_peer(&from, &probe->peer) || !is_ours(thread, fd)) {
        exchange->refused++;
        close(fd);
        return true;
    }
    thread->fd = fd;
    const bool ok = exchange_receive(thread, params->request_size - PROBE_HEADER_SIZE) &&
                    exchange_send(thread, params->response_size);
    thread->fd = connection;
    close(fd);
    exchange->answers[thread->index] += ok;
    return ok;
}

bool probe_answer_connections(struct flow_thread *thread, struct exchange *exchange)
{
    struct pollfd fds[] = {{.fd = exchange->probes[thread->index].fd, .events = POLLIN},
                           {.fd = thread->fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return thread_broken(thread, errno);
        if (thread_is_cancelled(thread))
            return false;
        if (fds[0].revents && !serve_one(thread, exchange))
            return false;
        if (!fds[0].revents && fds[1].revents)
            return probe_check_flow(thread) > 0;
    }
}
