/* The thread of a sending flow: datagrams at their due times, then their count. */
#include "bytes.h"
#include "handshake.h"
#include "tcpinfo.h"
#include "udp.h"
#include "udp_wire.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

/* The most datagrams of one system call, and of one segmented send. */
#define BATCH 64
/* A late sender catches up, but not by more than this: after a pause it would flood the path. The
 * rest delays the schedule. */
#define CATCH_UP_NS (NS_PER_S / 100)
#define SEND_TIMEOUT_US 20000
/* Longer than any job, and far from the overflow of a sum of times. */
#define LONGEST_GAP_NS (4e6 * NS_PER_S)
/* The longest time between a "port unreachable" and the reset of the connection of a peer that was
 * killed. */
#define RESET_MS 500

/* The payload behind the header of all datagrams. It does not compress. */
static unsigned char payload[UDP_LARGEST];

struct sender {
    struct udp_flow *flow;
    int64_t origin_ns; /* of the schedule */
    double gap_ns;     /* between bursts; 0: none */
    uint64_t bursts;
    int64_t measured_ns; /* when the warm-up is over */
    int64_t end_ns;
    int64_t check_ns;
    uint64_t bytes;
    size_t cut; /* datagrams of one segmented send */
    unsigned char headers[BATCH][UDP_HEADER_SIZE];
    struct iovec parts[2 * BATCH];
    struct mmsghdr messages[BATCH];
};

void udp_fill_payload(void)
{
    fill_random(payload, sizeof payload);
}

/* With UDP_SEGMENT (Linux 4.18) a burst passes through the kernel once, and is segmented at its
 * end. */
static void set_cut(struct sender *s, bool wanted)
{
    const int size = wanted ? s->flow->udp->params.size : 0;
    const int most = UDP_LARGEST / s->flow->udp->params.size;
    const bool cuts = most > 1 &&
                      setsockopt(s->flow->fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0 &&
                      wanted;
    s->cut = cuts ? (size_t)(most < BATCH ? most : BATCH) : 1;
    s->flow->segmented = cuts;
}

static void prepare_messages(struct sender *s)
{
    const size_t size = (size_t)s->flow->udp->params.size;
    for (int i = 0; i < BATCH; i++) {
        udp_header_begin(s->flow, s->headers[i]);
        s->parts[2 * i] = (struct iovec){s->headers[i], UDP_HEADER_SIZE};
        s->parts[2 * i + 1] = (struct iovec){payload, size - UDP_HEADER_SIZE};
    }
}

/* Flows are staggered within a gap, so that their bursts do not collide. */
static void plan(struct sender *s)
{
    const struct udp *udp = s->flow->udp;
    const struct udp_params *p = &udp->params;
    if (p->rate_bps > 0)
        s->gap_ns = fmin(8e9 * p->size * p->burst / p->rate_bps, LONGEST_GAP_NS);
    s->origin_ns = udp->threads.start_ns + (int64_t)(s->gap_ns * s->flow->index / udp->count);
    s->measured_ns = udp->threads.start_ns + seconds_ns(p->warmup_s);
    s->end_ns = s->measured_ns + seconds_ns(p->duration_s);
}

static void show(struct sender *s, int64_t behind_ns)
{
    struct udp_flow *flow = s->flow;
    const int64_t values[] = {[UDP_BYTES] = (int64_t)s->bytes,
                              [UDP_DATAGRAMS] = (int64_t)(flow->sent[0] + flow->sent[1]),
                              [UDP_REFUSED] = (int64_t)flow->refused,
                              [UDP_BEHIND_NS] = behind_ns};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        atomic_store_explicit(&flow->shown[i], values[i], memory_order_relaxed);
}

/* Writes the headers of the next datagrams and arranges them in messages. Returns how many. */
static unsigned arrange(struct sender *s, enum udp_phase phase, size_t count)
{
    struct udp_header header = {phase, s->flow->sent[phase], now_ns()};
    for (size_t i = 0; i < count; i++, header.sequence++)
        udp_header_write(&header, s->headers[i]);
    unsigned messages = 0;
    for (size_t at = 0; at < count; at += s->cut) {
        const size_t piece = count - at < s->cut ? count - at : s->cut;
        s->messages[messages++].msg_hdr =
            (struct msghdr){.msg_iov = &s->parts[2 * at], .msg_iovlen = 2 * (int)piece};
    }
    return messages;
}

/* Returns false, and fails the flow, when its peer has reset or ended the connection. */
static bool peer_is_connected(struct udp_flow *flow)
{
    char byte;
    const ssize_t n = recv(flow->thread->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return true;
    return thread_fail(flow->thread, "reset", "the peer closed the flow before its end: %s",
                       n < 0 ? strerror(errno) : "no count");
}

/* When the peer was killed, the kernel resets the connection and also rejects datagrams. Either may
 * come first, and both are reported as a reset. */
static bool fail_refused(struct udp_flow *flow)
{
    struct pollfd control = {.fd = flow->thread->fd, .events = POLLIN};
    poll(&control, 1, RESET_MS);
    return peer_is_connected(flow) &&
           thread_fail(
               flow->thread, "connect",
               "the peer's UDP port answers \"port unreachable\"; does a firewall reject it?");
}

/* Handles a failed call. Returns how many datagrams are given up, or -1 when the flow has
 * failed. */
static int handle_send_error(struct sender *s, size_t left, int problem)
{
    struct udp_flow *flow = s->flow;
    const size_t piece = left < s->cut ? left : s->cut;
    if (problem == EAGAIN || problem == EINTR)
        return 0;
    if (problem == ENOBUFS || problem == ENOMEM) {
        flow->refused += piece;
        return (int)piece;
    }
    if (s->cut > 1 && (problem == EINVAL || problem == EIO || problem == EMSGSIZE)) {
        set_cut(s, false); /* the path does not support segmentation */
        return 0;
    }
    if (problem == ECONNREFUSED)
        fail_refused(flow);
    else if (problem == EMSGSIZE)
        thread_fail(flow->thread, "option",
                    "the path takes no datagrams of %d bytes; send smaller ones",
                    flow->udp->params.size);
    else
        thread_fail(flow->thread, "connect",
                    "can't send: %s; is the link up, and no firewall in the way?",
                    strerror(problem));
    return -1;
}

/* Datagrams that the kernel did not accept keep their numbers. */
static bool send_some(struct sender *s, enum udp_phase phase, size_t left)
{
    struct udp_flow *flow = s->flow;
    while (left > 0 && !thread_is_cancelled(flow->thread)) {
        const unsigned messages = arrange(s, phase, left);
        /* musl's sendmmsg() makes a system call for each message. */
        const long taken = syscall(SYS_sendmmsg, flow->fd, s->messages, messages, MSG_NOSIGNAL);
        size_t done;
        if (taken > 0) {
            done = (size_t)taken * s->cut < left ? (size_t)taken * s->cut : left;
            flow->sent[phase] += done;
            s->bytes += done * (size_t)flow->udp->params.size;
        } else {
            const int given_up = handle_send_error(s, left, errno);
            if (given_up < 0)
                return false;
            done = (size_t)given_up;
        }
        left -= done;
        if (left > 0 && now_ns() > s->end_ns + CATCH_UP_NS)
            return true;
    }
    return true;
}

static int64_t due_ns(const struct sender *s)
{
    return s->gap_ns > 0 ? s->origin_ns + (int64_t)((double)s->bursts * s->gap_ns) : now_ns();
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sends what is due. `behind_ns` is the delay of the first datagram. */
static bool send_due(struct sender *s, int64_t due, int64_t behind_ns)
{
    struct udp_flow *flow = s->flow;
    const int burst = flow->udp->params.burst;
    const enum udp_phase phase = due < s->measured_ns ? UDP_WARMUP : UDP_MEASURED;
    const uint64_t most = BATCH / (uint64_t)burst;
    uint64_t bursts =
        s->gap_ns > 0 ? 1 + (uint64_t)((double)earliest(behind_ns, CATCH_UP_NS) / s->gap_ns) : most;
    if (bursts > most)
        bursts = most;
    /* A batch ends with its phase. */
    while (bursts > 1 && s->gap_ns > 0 && phase == UDP_WARMUP &&
           due + (int64_t)((double)(bursts - 1) * s->gap_ns) >= s->measured_ns)
        bursts--;
    s->bursts += bursts;
    if (behind_ns > flow->behind_max_ns)
        flow->behind_max_ns = behind_ns;
    if (behind_ns > CATCH_UP_NS) {
        s->origin_ns += behind_ns - CATCH_UP_NS;
        flow->slipped_ns += behind_ns - CATCH_UP_NS;
    }
    const bool ok = send_some(s, phase, bursts * (uint64_t)burst);
    show(s, behind_ns);
    return ok;
}

static void sleep_until(int64_t at_ns)
{
    const struct timespec at = {at_ns / NS_PER_S, at_ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static bool send_all(struct sender *s)
{
    for (;;) {
        const int64_t due = due_ns(s), now = now_ns();
        if (thread_is_cancelled(s->flow->thread))
            return false;
        if (now >= s->check_ns) {
            s->check_ns = now + UDP_CHECK_NS;
            if (!peer_is_connected(s->flow))
                return false;
        }
        if (now >= s->end_ns + CATCH_UP_NS || (due >= s->end_ns && now >= s->end_ns)) {
            s->flow->slipped_ns += due < s->end_ns ? s->end_ns - due : 0;
            return true;
        }
        if (due > now || due >= s->end_ns)
            sleep_until(earliest(earliest(due, s->end_ns), s->check_ns));
        else if (!send_due(s, due, now - due))
            return false;
    }
}

/* Sends the count, and waits until the receiver has confirmed it. */
static bool send_count(struct udp_flow *flow)
{
    const struct udp_params *p = &flow->udp->params;
    unsigned char count[UDP_COUNT_SIZE];
    udp_count_write(flow, count);
    if (send(flow->thread->fd, count, sizeof count, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof count ||
        shutdown(flow->thread->fd, SHUT_WR) < 0)
        return thread_fail(flow->thread, "reset", "the peer closed the flow before its end: %s",
                           strerror(errno));
    struct pollfd control = {.fd = flow->thread->fd, .events = POLLIN};
    const double end_timeout_s = p->link.stall_timeout_s + UDP_MAX_THRESHOLDS * p->loss_threshold_s;
    const int64_t until_ns = now_ns() + seconds_ns(end_timeout_s);
    while (poll(&control, 1, (int)(UDP_CHECK_NS / 1000000)) <= 0) {
        if (thread_is_cancelled(flow->thread))
            return false;
        if (now_ns() >= until_ns)
            return thread_fail(flow->thread, "stalled",
                               "the receiver has not ended the flow within %g s; is the link up?",
                               end_timeout_s);
    }
    char byte;
    if (recv(flow->thread->fd, &byte, 1, MSG_DONTWAIT) != 0)
        return thread_fail(flow->thread, "reset", "the peer closed the flow before its end: %s",
                           strerror(errno));
    linger_reset(flow->thread->fd, false);
    return true;
}

/* The kernel learns the MTU of a path from ICMP errors for datagrams that are too large (RFC
 * 1191). */
static int64_t path_mtu(int fd)
{
    int family = 0, mtu = 0;
    socklen_t length = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) < 0)
        return UNKNOWN;
    length = sizeof mtu;
    const bool is_v6 = family == AF_INET6;
    const int problem =
        getsockopt(fd, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_MTU : IP_MTU, &mtu, &length);
    return problem == 0 && mtu > 0 ? mtu : UNKNOWN;
}

bool udp_send(struct udp_flow *flow)
{
    struct sender sender = {.flow = flow};
    const struct udp_params *p = &flow->udp->params;
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    setsockopt(flow->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    prepare_messages(&sender);
    set_cut(&sender, p->burst > 1 || p->rate_bps == 0);
    if (!thread_wait_gate(flow->thread, GATE_OPEN))
        return false;
    plan(&sender);
    if (!send_all(&sender))
        return false;
    flow->thread->end_ns = now_ns();
    flow->length_ns = flow->thread->end_ns - sender.measured_ns;
    flow->path_mtu = path_mtu(flow->fd);
    return send_count(flow);
}
