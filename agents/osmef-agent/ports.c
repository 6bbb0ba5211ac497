#include "ports.h"

#include "clock.h"

#include <errno.h>
#include <string.h>

bool ports_bind(int fd, struct sockaddr_storage *address, socklen_t length, int *port)
{
    for (int taken = 0; taken <= PORTS_MAX_TAKEN && *port <= 65535; taken++) {
        *port_in(address) = htons((uint16_t)*port);
        const bool bound = bind(fd, (struct sockaddr *)address, length) == 0;
        *port += *port > 0;
        if (bound)
            return true;
        if (errno != EADDRINUSE)
            return false;
    }
    return false;
}

bool ports_find_peer(const struct flow_threads *threads, int flow, struct sockaddr_storage *peer,
                     socklen_t *size)
{
    *size = sizeof *peer;
    return getpeername(threads->link.fds[flow], (struct sockaddr *)peer, size) == 0 ||
           job_fail(threads->job, "reset", flow, "the peer has left: %s", strerror(errno));
}

bool ports_send(const struct flow_threads *threads, int flow, int fd)
{
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    const ssize_t size_of_port = sizeof(in_port_t);
    return (getsockname(fd, (struct sockaddr *)&here, &size) == 0 &&
            send(threads->link.fds[flow], port_in(&here), sizeof(in_port_t),
                 MSG_NOSIGNAL | MSG_DONTWAIT) == size_of_port) ||
           job_fail(threads->job, "reset", flow, "the peer has left: %s", strerror(errno));
}

bool ports_receive(const struct flow_threads *threads, int flow, int64_t deadline_ns,
                   struct sockaddr_storage *peer, socklen_t *size)
{
    unsigned char text[sizeof(in_port_t)];
    if (!ports_find_peer(threads, flow, peer, size))
        return false;
    for (size_t used = 0; used < sizeof text;) {
        const int ready =
            link_watch(threads->job, &threads->link, flow, 1, threads->wake, deadline_ns);
        if (job_aborted(threads->job))
            return false;
        if (ready < 0 && now_ns() < deadline_ns)
            continue;
        if (ready < 0)
            return job_fail(threads->job, "arm-timeout", flow, "the peer sent no port within %g s",
                            threads->params->arm_timeout_s);
        const ssize_t n =
            recv(threads->link.fds[flow], text + used, sizeof text - used, MSG_DONTWAIT);
        if (n <= 0)
            return job_fail(threads->job, "reset", flow, "the peer left before it sent its port");
        used += (size_t)n;
    }
    memcpy(port_in(peer), text, sizeof text);
    return true;
}
