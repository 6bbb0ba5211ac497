/* The sockets beside the connections, and what is said on these of them. */
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
#define PORT_SIZE 2
#define BACKLOG 64
/* A thread that waits for a datagram, or sends one, looks after its peer and the job as often. */
#define LOOK_US 20000

static const unsigned char *cookie_of(const struct hand *hand)
{
    return hand->crew->params->opening.cookie;
}

void probe_header_write(const struct hand *hand, uint64_t number, unsigned char *request)
{
    memcpy(request, cookie_of(hand), FLOW_AT);
    put(request + FLOW_AT, 2, (uint64_t)hand->index);
    put(request + NUMBER_AT, 6, number);
}

bool probe_header_read(const struct hand *hand, const unsigned char *request, ssize_t size,
                       uint64_t *number)
{
    if (size < PROBE_HEADER_SIZE || memcmp(request, cookie_of(hand), FLOW_AT) != 0 ||
        get(request + FLOW_AT, 2) != (uint64_t)hand->index)
        return false;
    *number = get(request + NUMBER_AT, 6);
    return true;
}

static void look_often(int fd)
{
    const struct timeval often = {.tv_usec = LOOK_US};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &often, sizeof often);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &often, sizeof often);
}

/* Takes what each flow's own connection says of its other end. */
static bool find_peer(struct exchange *exchange, int flow)
{
    struct probe *probe = &exchange->probes[flow];
    probe->peer_size = sizeof probe->peer;
    return getpeername(exchange->crew.link.fds[flow], (struct sockaddr *)&probe->peer,
                       &probe->peer_size) == 0 ||
           job_fail(exchange->crew.job, "reset", flow, "the peer has left: %s", strerror(errno));
}

/* Answers are awaited where the flow's connection has its end. Returns the port, or -1. */
static int open_answering(struct exchange *exchange, int flow, int *port)
{
    struct job *job = exchange->crew.job;
    struct probe *probe = &exchange->probes[flow];
    const struct socket_options *options = &exchange->params.link.options;
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    const int on = 1;
    if (getsockname(exchange->crew.link.fds[flow], (struct sockaddr *)&here, &size) < 0)
        return job_fail(job, "reset", flow, "the peer has left: %s", strerror(errno)), -1;
    const bool listens = exchange->params.protocol == TCP_CONNECT;
    probe->fd = listens ? options_socket(job, options, here.ss_family, flow)
                        : options_datagram(job, options, here.ss_family, flow);
    if (probe->fd < 0)
        return -1;
    if (listens)
        setsockopt(probe->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    else
        look_often(probe->fd);
    if (!ports_bind(probe->fd, &here, size, port) || (listens && listen(probe->fd, BACKLOG) < 0) ||
        getsockname(probe->fd, (struct sockaddr *)&here, &size) < 0)
        return job_fail(job, "bind", flow, "can't use port %d, nor those after: %s",
                        exchange->params.probe_port, strerror(errno)),
               -1;
    return ntohs(*port_in(&here));
}

static bool tell_port(struct exchange *exchange, int flow, int *next)
{
    unsigned char told[PORT_SIZE];
    const int port = open_answering(exchange, flow, next);
    if (port < 0)
        return false;
    put(told, PORT_SIZE, (uint64_t)port);
    return send(exchange->crew.link.fds[flow], told, PORT_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) ==
               PORT_SIZE ||
           job_fail(exchange->crew.job, "reset", flow, "the peer has left");
}

static bool hear_port(struct exchange *exchange, int flow, int64_t deadline_ns)
{
    struct crew *crew = &exchange->crew;
    unsigned char told[PORT_SIZE];
    for (ssize_t used = 0; used < PORT_SIZE;) {
        const int ready = link_watch(crew->job, &crew->link, flow, 1, crew->wake, deadline_ns);
        if (job_aborted(crew->job))
            return false;
        if (ready < 0 && now_ns() < deadline_ns)
            continue;
        const ssize_t n =
            recv(crew->link.fds[flow], told + used, (size_t)(PORT_SIZE - used), MSG_DONTWAIT);
        if (ready < 0)
            return job_fail(crew->job, "arm-timeout", flow, "the peer told no port within %g s",
                            crew->params->arm_timeout_s);
        if (n <= 0)
            return job_fail(crew->job, "reset", flow, "the peer left before it told its port");
        used += n;
    }
    *port_in(&exchange->probes[flow].peer) = htons((uint16_t)get(told, PORT_SIZE));
    return true;
}

static bool open_asking(struct exchange *exchange, int flow, int *port)
{
    struct job *job = exchange->crew.job;
    struct probe *probe = &exchange->probes[flow];
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    const bool echo = exchange->params.protocol == ICMP;
    if (getsockname(exchange->crew.link.fds[flow], (struct sockaddr *)&here, &size) < 0)
        return job_fail(job, "reset", flow, "the peer has left: %s", strerror(errno));
    probe->fd = echo ? echo_open(exchange, flow)
                     : options_datagram(job, &exchange->params.link.options, here.ss_family, flow);
    if (probe->fd < 0)
        return false;
    int none = 0;
    look_often(probe->fd);
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
    const struct crew *crew = &exchange->crew;
    const enum protocol protocol = exchange->params.protocol;
    const int64_t deadline_ns = now_ns() + seconds_ns(crew->params->arm_timeout_s);
    const bool listens = crew->params->listens;
    int port = exchange->params.probe_port;
    bool ok = true;
    for (int i = 0; ok && i < crew->count; i++) {
        ok = find_peer(exchange, i);
        if (ok && protocol != ICMP)
            ok = listens ? tell_port(exchange, i, &port) : hear_port(exchange, i, deadline_ns);
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

bool probe_begin(struct hand *hand)
{
    char go = PROBE_GO;
    if (!hand->crew->params->listens)
        return hand_send(hand, &go, 1);
    return hand_receive(hand, &go, 1) &&
           (go == PROBE_GO || hand_fail(hand, "protocol", "the peer says something else"));
}

int probe_look(struct hand *hand)
{
    char unread;
    const ssize_t n = recv(hand->crew->link.fds[hand->index], &unread, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        hand_broken(hand, errno);
    return n < 0 ? -1 : 1;
}
