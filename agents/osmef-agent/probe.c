/* Sockets of probes beside the connections, and their messages on the connections. */
#include "probe.h"

#include "bytes.h"
#include "clock.h"
#include "echo.h"
#include "ports.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FLOW_AT = 8, NUMBER_AT = 10 };
#define BACKLOG 64
/* How often a blocked thread checks its peer and the job. */
#define CHECK_US 20000

static const unsigned char *cookie_of(const struct flow_thread *thread)
{
    return thread->threads->params->handshake.cookie;
}

void probe_header_write(const struct flow_thread *thread, uint64_t number, unsigned char *request)
{
    memcpy(request, cookie_of(thread), FLOW_AT);
    put(request + FLOW_AT, 2, (uint64_t)thread->index);
    put(request + NUMBER_AT, 6, number);
}

bool probe_header_read(const struct flow_thread *thread, const unsigned char *request, ssize_t size,
                       uint64_t *number)
{
    if (size < PROBE_HEADER_SIZE || memcmp(request, cookie_of(thread), FLOW_AT) != 0 ||
        get(request + FLOW_AT, 2) != (uint64_t)thread->index)
        return false;
    *number = get(request + NUMBER_AT, 6);
    return true;
}

static void set_check_timeout(int fd)
{
    const struct timeval often = {.tv_usec = CHECK_US};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &often, sizeof often);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &often, sizeof often);
}

/* The listening end's socket has the address of the flow's connection. */
static bool open_answering(struct exchange *exchange, int flow, int *port)
{
    struct job *job = exchange->threads.job;
    struct probe *probe = &exchange->probes[flow];
    const struct socket_options *options = &exchange->params.link.options;
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    const int on = 1;
    if (getsockname(exchange->threads.link.fds[flow], (struct sockaddr *)&here, &size) < 0)
        return job_fail(job, "reset", flow, "the peer has left: %s", strerror(errno));
    const bool listens = exchange->params.protocol == TCP_CONNECT;
    probe->fd = listens ? options_socket(job, options, here.ss_family, flow)
                        : options_datagram(job, options, here.ss_family, flow);
    if (probe->fd < 0)
        return false;
    if (listens)
        setsockopt(probe->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    else
        set_check_timeout(probe->fd);
    if (!ports_bind(probe->fd, &here, size, port) || (listens && listen(probe->fd, BACKLOG) < 0))
        return job_fail(job, "bind", flow, "can't use port %d, nor those after: %s",
                        exchange->params.probe_port, strerror(errno));
    return ports_send(&exchange->threads, flow, probe->fd);
}

static bool open_asking(struct exchange *exchange, int flow, int *port)
{
    struct job *job = exchange->threads.job;
    struct probe *probe = &exchange->probes[flow];
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    const bool echo = exchange->params.protocol == ICMP;
    if (getsockname(exchange->threads.link.fds[flow], (struct sockaddr *)&here, &size) < 0)
        return job_fail(job, "reset", flow, "the peer has left: %s", strerror(errno));
    probe->fd = echo ? echo_open(exchange, flow)
                     : options_datagram(job, &exchange->params.link.options, here.ss_family, flow);
    if (probe->fd < 0)
        return false;
    int none = 0;
    set_check_timeout(probe->fd);
    if (echo)
        *port_in(&probe->peer) = 0;
    if (!ports_bind(probe->fd, &here, size, echo ? &none : port))
        return job_fail(job, "bind", flow, "can't use UDP port %d, nor those after: %s",
                        exchange->params.probe_port, strerror(errno));
    return connect(probe->fd, (struct sockaddr *)&probe->peer, probe->peer_size) == 0 ||
           job_fail(job, "connect", flow, "can't send datagrams to the peer: %s", strerror(errno));
}

bool probe_open(struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    const enum protocol protocol = exchange->params.protocol;
    const int64_t deadline_ns = now_ns() + seconds_ns(threads->params->arm_timeout_s);
    const bool listens = threads->params->listens;
    int port = exchange->params.probe_port;
    bool ok = true;
    for (int i = 0; ok && i < threads->count; i++) {
        struct probe *probe = &exchange->probes[i];
        ok = !listens && protocol != ICMP
                 ? ports_receive(threads, i, deadline_ns, &probe->peer, &probe->peer_size)
                 : ports_find_peer(threads, i, &probe->peer, &probe->peer_size);
        if (ok && listens && protocol != ICMP)
            ok = open_answering(exchange, i, &port);
        if (ok && !listens && protocol != TCP_CONNECT)
            ok = open_asking(exchange, i, &port);
    }
    return ok;
}

void probe_close(struct exchange *exchange)
{
    for (int i = 0; i < MAX_FLOWS; i++) {
        if (exchange->probes[i].fd >= 0)
            close(exchange->probes[i].fd);
        exchange->probes[i].fd = -1;
    }
}

bool probe_begin(struct flow_thread *thread)
{
    char go = PROBE_GO;
    if (!thread->threads->params->listens)
        return thread_send(thread, &go, 1);
    return thread_receive(thread, &go, 1) &&
           (go == PROBE_GO || thread_fail(thread, "protocol", "the peer says something else"));
}

int probe_check_flow(struct flow_thread *thread)
{
    char unread;
    const ssize_t n =
        recv(thread->threads->link.fds[thread->index], &unread, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        thread_broken(thread, errno);
    return n < 0 ? -1 : 1;
}
