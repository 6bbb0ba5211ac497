#include "options.h"

#include "tcpinfo.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define OSMEF_SOL_MPTCP 284
#define OSMEF_MPTCP_INFO 1
#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

/* The six upper bits of the old TOS octet (RFC 2474, section 3). */
#define DSCP_SHIFT 2

static const struct field fields[] = {
#define FIELDS_OF struct socket_options
    WHOLE("window", window, LOWEST_WINDOW, HIGHEST_WINDOW, 0),
    WHOLE("mss", mss, LOWEST_MSS, HIGHEST_MSS, 0),
    WHOLE("dscp", dscp, 0, HIGHEST_DSCP, 0),
    TEXT_OR("congestion_control", congestion_control, ""),
    NUMBER("pacing_bps", pacing_bps, LOWEST_PACING, HIGHEST_PACING, 0),
    FLAG("mptcp", mptcp, false),
    FIELDS_END,
#undef FIELDS_OF
};

bool options_read(const struct json_object *command, struct socket_options *options, char *problem)
{
    return fields_read(command, fields, options, problem);
}

static bool refused(struct job *job, int flow, const char *what, const char *cure)
{
    return job_fail(job, "option", flow, "the kernel refuses %s: %s; %s", what, strerror(errno),
                    cure);
}

static bool set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* The kernel silently limits a buffer; a result with a wrong window would be misleading. */
static bool set_window(struct job *job, int fd, int flow, int window)
{
    static const int buffers[] = {SO_SNDBUF, SO_RCVBUF};
    for (int i = 0; i < 2; i++) {
        int got = 0;
        socklen_t length = sizeof got;
        if (!set(fd, SOL_SOCKET, buffers[i], window) ||
            getsockopt(fd, SOL_SOCKET, buffers[i], &got, &length) < 0)
            return refused(job, flow, "the window", "use another one");
        /* The kernel doubles the requested size for its bookkeeping (socket(7)). */
        if (got / 2 < window)
            return job_fail(job, "option", flow,
                            "the kernel gives a window of %d bytes, not %d; raise net.core.%s",
                            got / 2, window, i ? "rmem_max" : "wmem_max");
    }
    return true;
}

/* Rates above 4 GB/s need the 64-bit form, which kernels support since 4.20. */
static bool set_pacing(int fd, double bps)
{
    const uint64_t wide = (uint64_t)(bps / 8);
    if (wide < UINT32_MAX && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE,
                                        &(uint32_t){(uint32_t)wide}, sizeof(uint32_t)) == 0)
        return true;
    return setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &wide, sizeof wide) == 0;
}

static bool set_dscp(int fd, int family, int dscp)
{
    /* An IPv6 socket may carry IPv4. */
    return (family != AF_INET6 || set(fd, IPPROTO_IPV6, IPV6_TCLASS, dscp << DSCP_SHIFT)) &&
           (set(fd, IPPROTO_IP, IP_TOS, dscp << DSCP_SHIFT) || family == AF_INET6);
}

static bool set_algorithm(struct job *job, const struct socket_options *o, int fd, int flow)
{
    const size_t length = strlen(o->congestion_control);
    return !length ||
           setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->congestion_control, (socklen_t)length) ==
               0 ||
           refused(job, flow, o->congestion_control,
                   "sysctl net.ipv4.tcp_allowed_congestion_control lists what it allows");
}

bool options_change(struct job *job, const struct socket_options *o, int fd, int flow)
{
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    if (getsockname(fd, (struct sockaddr *)&here, &size) < 0)
        here.ss_family = AF_INET;
    return set_algorithm(job, o, fd, flow) && options_mark(job, o, fd, here.ss_family, flow);
}

static bool apply(struct job *job, const struct socket_options *o, int fd, int family, int flow)
{
    if (o->window && !set_window(job, fd, flow, o->window))
        return false;
    if (o->mss && !set(fd, IPPROTO_TCP, TCP_MAXSEG, o->mss))
        return refused(job, flow, "the segment size", "use one within the MTU");
    if (!set_algorithm(job, o, fd, flow))
        return false;
    if (!options_mark(job, o, fd, family, flow))
        return false;
    if (o->pacing_bps > 0 && !set_pacing(fd, o->pacing_bps))
        return refused(job, flow, "pacing", "it needs Linux 3.13");
    return true;
}

static int open_stream(struct job *job, const struct socket_options *options, int family, int flow,
                       int flags)
{
    const int fd =
        socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, options->mptcp ? IPPROTO_MPTCP : 0);
    if (fd < 0 && options->mptcp) {
        refused(job, flow, "MPTCP", "it needs Linux 5.6 and sysctl net.mptcp.enabled=1");
        return -1;
    }
    if (fd < 0) {
        /* A later address of the name may be of a family that this kernel supports. */
        job_fail_socket(job, errno == EAFNOSUPPORT ? "connect" : "resource", flow, errno, "flows");
        return -1;
    }
    if (!apply(job, options, fd, family, flow)) {
        close(fd);
        return -1;
    }
    return fd;
}

int options_socket(struct job *job, const struct socket_options *options, int family, int flow)
{
    return open_stream(job, options, family, flow, SOCK_NONBLOCK);
}

int options_stream(struct job *job, const struct socket_options *options, int family, int flow)
{
    return open_stream(job, options, family, flow, 0);
}

/* Returns the flags of struct mptcp_info (linux/mptcp.h), or -1. */
static int64_t mptcp_flags(int fd)
{
    struct {
        uint8_t counters[8];
        uint32_t flags;
        unsigned char rest[512];
    } info;
    socklen_t length = sizeof info;
    if (getsockopt(fd, OSMEF_SOL_MPTCP, OSMEF_MPTCP_INFO, &info, &length) < 0)
        return -1;
    return info.flags;
}

int options_mptcp(int fd)
{
    enum { FALLBACK = 1 };
    const int64_t flags = mptcp_flags(fd);
    if (flags >= 0)
        return !(flags & FALLBACK);
    /* A connection that has fallen back has no such option any more
     * (Documentation/networking/mptcp.rst of the kernel); a new one shows whether the kernel
     * supports the option. */
    const int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP);
    const bool known = fresh >= 0 && mptcp_flags(fresh) >= 0;
    if (fresh >= 0)
        close(fresh);
    return known ? 0 : UNKNOWN;
}

int options_datagram(struct job *job, const struct socket_options *o, int family, int flow)
{
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        job_fail_socket(job, "resource", flow, errno, "flows");
        return -1;
    }
    if ((o->window && !set_window(job, fd, flow, o->window)) ||
        !options_mark(job, o, fd, family, flow)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool options_mark(struct job *job, const struct socket_options *o, int fd, int family, int flow)
{
    return !o->dscp || set_dscp(fd, family, o->dscp) ||
           refused(job, flow, "the DSCP", "leave it out");
}
