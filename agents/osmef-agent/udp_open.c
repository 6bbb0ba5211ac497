/* The UDP sockets beside the connections of the link. */
#include "ports.h"
#include "udp.h"
#include "udp_wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Binds to the address that the flow's connection has at this end. */
static bool open_socket(struct udp *udp, struct udp_flow *flow, int *port,
                        unsigned char told[UDP_PORT_SIZE])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(flow->control, (struct sockaddr *)&address, &length) < 0)
        return job_fail(udp->job, "reset", flow->index, "the peer has left: %s", strerror(errno));
    flow->fd =
        options_datagram(udp->job, &udp->params.link.options, address.ss_family, flow->index);
    if (flow->fd < 0)
        return false;
    if (!ports_bind(flow->fd, &address, length, port) ||
        getsockname(flow->fd, (struct sockaddr *)&address, &length) < 0)
        return job_fail(udp->job, "bind", flow->index, "can't use UDP port %d, nor those after: %s",
                        udp->params.udp_port, strerror(errno));
    memcpy(told, port_in(&address), UDP_PORT_SIZE);
    return true;
}

static bool connect_socket(struct udp *udp, const struct udp_flow *flow,
                           const unsigned char told[UDP_PORT_SIZE])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getpeername(flow->control, (struct sockaddr *)&address, &length) < 0)
        return job_fail(udp->job, "reset", flow->index, "the peer has left: %s", strerror(errno));
    memcpy(port_in(&address), told, UDP_PORT_SIZE);
    if (connect(flow->fd, (struct sockaddr *)&address, length) < 0)
        return job_fail(udp->job, "connect", flow->index, "can't send datagrams to the peer: %s",
                        strerror(errno));
    return true;
}

/* Takes what has come of the peer's port. */
static bool hear(struct udp *udp, const struct udp_flow *flow, unsigned char *told, size_t *used)
{
    const ssize_t n = recv(flow->control, told + *used, UDP_PORT_SIZE - *used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return job_fail(udp->job, "reset", flow->index, "the peer left before it told its port");
    *used += (size_t)n;
    return true;
}

/* Hears the ports of all flows. */
static bool hear_all(struct udp *udp, unsigned char (*told)[UDP_PORT_SIZE])
{
    static struct pollfd fds[1 + MAX_FLOWS];
    static size_t used[MAX_FLOWS];
    const double timeout_s = udp->params.link.arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    memset(used, 0, sizeof used);
    for (int missing = udp->count; missing > 0;) {
        for (int i = 0; i < udp->count; i++)
            fds[1 + i] = (struct pollfd){.fd = used[i] < UDP_PORT_SIZE ? udp->flows[i].control : -1,
                                         .events = POLLIN};
        control_wait(udp->job->control, fds, (nfds_t)udp->count + 1, deadline_ns);
        if (job_aborted(udp->job))
            return false;
        for (int i = 0; i < udp->count; i++) {
            if (!fds[1 + i].revents)
                continue;
            if (!hear(udp, &udp->flows[i], told[i], &used[i]))
                return false;
            missing -= used[i] == UDP_PORT_SIZE;
        }
        if (missing > 0 && now_ns() >= deadline_ns)
            return job_fail(udp->job, "arm-timeout", -1,
                            "the peer told %d of %d UDP ports within %g s", udp->count - missing,
                            udp->count, timeout_s);
    }
    return true;
}

bool udp_open(struct udp *udp)
{
    static unsigned char told[MAX_FLOWS][UDP_PORT_SIZE];
    const int on = 1;
    int port = udp->params.udp_port;
    for (int i = 0; i < udp->count; i++) {
        struct udp_flow *flow = &udp->flows[i];
        flow->control = udp->link.fds[i];
        /* What is said here is short and must not wait for an acknowledgement. */
        setsockopt(flow->control, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (!open_socket(udp, flow, &port, told[i]))
            return false;
        if (send(flow->control, told[i], UDP_PORT_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT) !=
            UDP_PORT_SIZE)
            return job_fail(udp->job, "reset", i, "the peer has left");
    }
    if (!hear_all(udp, told))
        return false;
    for (int i = 0; i < udp->count; i++)
        if (!connect_socket(udp, &udp->flows[i], told[i]))
            return false;
    return true;
}

void udp_close(struct udp *udp)
{
    for (int i = 0; i < udp->count; i++) {
        if (udp->flows[i].fd >= 0)
            close(udp->flows[i].fd);
        udp->flows[i].fd = -1;
    }
}
