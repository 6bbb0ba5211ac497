/* The thread of a receiving flow: until the sender's count and the last late datagrams. */
#include "handshake.h"
#include "pages.h"
#include "tcpinfo.h"
#include "udp.h"
#include "udp_wire.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
/* linux/sock_diag.h: the index of the drops in SO_MEMINFO. */
#define MEMINFO_DROPS 8
#define MEMINFO_SIZE 9

/* The buffer of each flow: for a few messages of coalesced datagrams (UDP_GRO), or for more of one
 * datagram each. Untouched pages take no memory. */
#define BUFFER_SIZE (256 * 1024)
#define COALESCED_SIZE 65536
#define MAX_BATCH 64
#define CONTROL_SIZE 128

static unsigned char *buffers;
static size_t buffers_size;

struct receiver {
    struct udp_flow *flow;
    size_t slot_size;
    unsigned batch;
    int64_t deadline_ns; /* deadline of the sender's count; 0: not started */
    int64_t check_ns;
    int64_t counted_ns; /* when the count was received; 0: not yet */
    int64_t quiet_ns;   /* when the last datagram was received */
    size_t count_size;  /* bytes of the count received so far */
    unsigned char count[UDP_COUNT_SIZE];
    uint32_t drops; /* the kernel's last counter, which wraps */
    struct iovec parts[MAX_BATCH];
    struct mmsghdr messages[MAX_BATCH];
    _Alignas(struct cmsghdr) unsigned char controls[MAX_BATCH][CONTROL_SIZE];
};

/* The ancillary data of a message. */
struct ancillary {
    int64_t arrived_ns; /* 0: unknown */
    int piece;          /* size of the coalesced datagrams; 0: there is only one */
};

bool udp_map_buffers(struct udp *udp)
{
    buffers_size = BUFFER_SIZE * (size_t)udp->count;
    buffers = threads_map(&udp->threads, buffers_size, MAP_NORESERVE);
    return buffers;
}

void udp_unmap_buffers(void)
{
    if (buffers)
        munmap(buffers, buffers_size);
    buffers = NULL;
}

static void set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

static void set_timeout(int fd, int64_t ns)
{
    const struct timeval timeout = {ns / NS_PER_S, (ns % NS_PER_S + 999) / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
}

/* Options that the kernel lacks leave their values unknown. Coalesced datagrams have a common
 * time of arrival and count as one when they are dropped, so they are only wanted at an
 * unlimited rate. */
static void prepare(struct receiver *r)
{
    struct udp_flow *flow = r->flow;
    const struct udp_params *p = &flow->udp->params;
    const int coalesce = p->rate_bps == 0;
    socklen_t length = sizeof flow->receive_buffer;
    set(flow->fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    set(flow->fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    flow->coalesced =
        coalesce && setsockopt(flow->fd, SOL_UDP, UDP_GRO, &coalesce, sizeof coalesce) == 0;
    set_timeout(flow->fd, UDP_CHECK_NS);
    getsockopt(flow->fd, SOL_SOCKET, SO_RCVBUF, &flow->receive_buffer, &length);
    /* One byte more than a datagram, to detect longer ones. */
    r->slot_size = flow->coalesced ? COALESCED_SIZE : ((size_t)p->size + 64) / 64 * 64;
    const size_t fit = BUFFER_SIZE / r->slot_size;
    r->batch = (unsigned)(fit < MAX_BATCH ? fit : MAX_BATCH);
    unsigned char *const buffer = buffers + (size_t)flow->index * BUFFER_SIZE;
    for (unsigned i = 0; i < r->batch; i++) {
        buffer[i * r->slot_size] = 0; /* touches the page before the first datagram */
        r->parts[i] = (struct iovec){buffer + i * r->slot_size, r->slot_size};
    }
}

static void add_drops(struct receiver *r, uint32_t drops)
{
    r->flow->dropped += (uint32_t)(drops - r->drops);
    r->drops = drops;
}

/* Adds the drops after the last datagram. */
static void add_last_drops(struct receiver *r)
{
    uint32_t info[MEMINFO_SIZE];
    socklen_t length = sizeof info;
    if (getsockopt(r->flow->fd, SOL_SOCKET, SO_MEMINFO, info, &length) == 0 &&
        length > MEMINFO_DROPS * sizeof *info)
        add_drops(r, info[MEMINFO_DROPS]);
}

/* musl's CMSG_NXTHDR() compares signed with unsigned. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"

/* `offset_ns` is the monotonic clock minus the real-time one. */
static struct ancillary read_ancillary(struct receiver *r, struct msghdr *message,
                                       int64_t offset_ns)
{
    struct ancillary ancillary = {0};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(c), sizeof at);
            ancillary.arrived_ns = at.tv_sec * NS_PER_S + at.tv_nsec + offset_ns;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            uint32_t drops;
            memcpy(&drops, CMSG_DATA(c), sizeof drops);
            add_drops(r, drops);
        } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            memcpy(&ancillary.piece, CMSG_DATA(c), sizeof ancillary.piece);
        }
    }
    return ancillary;
}

#pragma GCC diagnostic pop

static void count_datagram(struct receiver *r, const unsigned char *text, size_t size,
                           int64_t arrived_ns)
{
    struct udp_flow *flow = r->flow;
    struct udp_header header;
    if (!udp_header_read(flow, text, size, &header)) {
        flow->foreign++;
        return;
    }
    if (header.phase == UDP_MEASURED) {
        if (!flow->first_ns) {
            flow->first_ns = arrived_ns;
            flow->dropped_before = flow->dropped;
        }
        flow->last_ns = arrived_ns;
    }
    stats_arrive(&flow->stats[header.phase], header.sequence, (int)size, header.sent_ns,
                 arrived_ns);
}

static void count_message(struct receiver *r, unsigned index, int64_t now, int64_t offset_ns)
{
    struct mmsghdr *message = &r->messages[index];
    const unsigned char *text = r->parts[index].iov_base;
    const struct ancillary ancillary = read_ancillary(r, &message->msg_hdr, offset_ns);
    const int64_t arrived_ns = ancillary.arrived_ns ? ancillary.arrived_ns : now;
    const size_t length = message->msg_len;
    const size_t piece =
        ancillary.piece > 0 && (size_t)ancillary.piece < length ? (size_t)ancillary.piece : length;
    count_datagram(r, text, piece, arrived_ns);
    for (size_t at = piece; at < length; at += piece)
        count_datagram(r, text + at, length - at < piece ? length - at : piece, arrived_ns);
}

static void show(struct udp_flow *flow)
{
    const struct datagram_stats *w = &flow->stats[UDP_WARMUP], *m = &flow->stats[UDP_MEASURED];
    const int64_t values[UDP_SHOWN] = {
        [UDP_BYTES] = (int64_t)(w->bytes + m->bytes),
        [UDP_DATAGRAMS] = (int64_t)(w->received + m->received),
        [UDP_LOST] = (int64_t)(stats_missing(w) + stats_missing(m)),
        [UDP_REORDERED] = (int64_t)(w->reordered + m->reordered),
        [UDP_DUPLICATES] = (int64_t)(w->duplicates + m->duplicates),
        [UDP_DROPPED] = flow->coalesced ? UNKNOWN : (int64_t)flow->dropped,
        [UDP_JITTER_NS] = lround(m->received ? m->jitter_ns : w->jitter_ns),
    };
    for (int i = 0; i < UDP_SHOWN; i++)
        atomic_store_explicit(&flow->shown[i], values[i], memory_order_relaxed);
}

/* Returns how many messages were received, or -1 when the flow has failed. The flags are those of
 * recvmmsg(2). */
static int receive_some(struct receiver *r, int flags)
{
    for (unsigned i = 0; i < r->batch; i++)
        r->messages[i].msg_hdr = (struct msghdr){.msg_iov = &r->parts[i],
                                                 .msg_iovlen = 1,
                                                 .msg_control = r->controls[i],
                                                 .msg_controllen = CONTROL_SIZE};
    const int n = recvmmsg(r->flow->fd, r->messages, r->batch, flags, NULL);
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR)
            return 0;
        thread_fail(r->flow->thread, "connect", "can't receive: %s", strerror(errno));
        return -1;
    }
    const int64_t now = now_ns(), offset_ns = now - clock_ns(CLOCK_REALTIME);
    for (int i = 0; i < n; i++)
        count_message(r, (unsigned)i, now, offset_ns);
    if (n > 0) {
        r->quiet_ns = now;
        show(r->flow);
    }
    return n;
}

/* Reads the sender's count, if it has been sent. Returns false when the connection has ended. */
static bool read_count(struct receiver *r, int64_t now)
{
    struct udp_flow *flow = r->flow;
    const double threshold_s = flow->udp->params.loss_threshold_s;
    const ssize_t n = recv(flow->thread->fd, r->count + r->count_size,
                           UDP_COUNT_SIZE - r->count_size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return thread_fail(flow->thread, "reset", "the peer closed the flow before its end: %s",
                           n < 0 ? strerror(errno) : "no count");
    r->count_size += (size_t)n;
    if (r->count_size < UDP_COUNT_SIZE)
        return true;
    if (!udp_count_read(flow, r->count))
        return thread_fail(flow->thread, "protocol", "the peer sent an impossible count");
    r->counted_ns = r->quiet_ns = now;
    if (threshold_s < ns_seconds(UDP_CHECK_NS))
        set_timeout(flow->fd, seconds_ns(threshold_s));
    return true;
}

static bool is_complete(const struct receiver *r, int64_t now)
{
    const struct udp_flow *flow = r->flow;
    const double threshold_s = flow->udp->params.loss_threshold_s;
    if (!r->counted_ns)
        return false;
    bool all = true;
    for (int i = 0; i < UDP_PHASES; i++)
        all = all && flow->stats[i].received >= flow->sent[i];
    return all || ns_seconds(now - r->quiet_ns) >= threshold_s ||
           ns_seconds(now - r->counted_ns) >= UDP_MAX_THRESHOLDS * threshold_s;
}

/* Before the start the main thread watches the connections. */
static bool check_sender(struct receiver *r, int64_t now)
{
    const struct udp *udp = r->flow->udp;
    const struct udp_params *p = &udp->params;
    r->check_ns = now + UDP_CHECK_NS;
    if (!udp->threads.start_ns || r->counted_ns)
        return true;
    if (!read_count(r, now))
        return false;
    const double count_timeout_s = p->warmup_s + p->duration_s + p->link.stall_timeout_s;
    return r->counted_ns || now - udp->threads.start_ns < seconds_ns(count_timeout_s) ||
           thread_fail(r->flow->thread, "stalled",
                       "the sender sent no count within %g s; is the link up?", count_timeout_s);
}

/* Receives what is still queued when the count has been read: duplicates may be among it. */
static bool receive_rest(struct receiver *r)
{
    const int64_t most_ns = seconds_ns(r->flow->udp->params.loss_threshold_s);
    const int64_t begun_ns = now_ns();
    int n;
    do
        n = receive_some(r, MSG_DONTWAIT);
    while (n > 0 && now_ns() - begun_ns < most_ns);
    return n >= 0;
}

static bool receive_all(struct receiver *r)
{
    for (;;) {
        const int n = receive_some(r, MSG_WAITFORONE);
        if (n < 0)
            return false;
        if (thread_is_cancelled(r->flow->thread))
            return false;
        const int64_t now = now_ns();
        if ((n == 0 || now >= r->check_ns) && !check_sender(r, now))
            return false;
        if (is_complete(r, now))
            return receive_rest(r);
    }
}

/* The end of the transfer. The wait for the count and for late datagrams is not a part of it, since
 * the last interval would seem slow. */
static int64_t ended_ns(const struct receiver *r)
{
    const struct udp_flow *flow = r->flow;
    const struct udp *udp = flow->udp;
    if (!flow->last_ns)
        return r->quiet_ns;
    const int64_t sent_ns =
        udp->threads.start_ns + seconds_ns(udp->params.warmup_s) + flow->length_ns;
    const int64_t end_ns = flow->last_ns > sent_ns ? flow->last_ns : sent_ns;
    return end_ns < r->quiet_ns ? end_ns : r->quiet_ns;
}

/* Ends the flow. The FIN confirms the count to the sender, which then closes. */
static void conclude(struct receiver *r)
{
    struct udp_flow *flow = r->flow;
    add_last_drops(r);
    for (int i = 0; i < UDP_PHASES; i++)
        stats_finish(&flow->stats[i], flow->sent[i]);
    show(flow);
    flow->thread->end_ns = ended_ns(r);
    linger_reset(flow->thread->fd, false);
    shutdown(flow->thread->fd, SHUT_WR);
}

bool udp_receive(struct udp_flow *flow)
{
    struct receiver receiver = {.flow = flow};
    prepare(&receiver);
    if (!receive_all(&receiver))
        return false;
    conclude(&receiver);
    return true;
}
