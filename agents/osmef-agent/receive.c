#include "receive.h"

#include "clock.h"
#include "flow.h"
#include "payload.h"

#include <errno.h>
#include <sys/socket.h>

/* To be woken for each few segments costs a receiver that keeps up more than to take them: one that
 * gets this much in this time, read after read, is woken for as much only (SO_RCVLOWAT, socket(7)).
 * What lies in the kernel is in no interval; at this rate that is little. 256 KiB for each of 8
 * flows fell out of the cache. With a copy at both ends 8 flows on loopback measured slower so. */
#define LUMP_SIZE (128 * 1024)
#define LUMP_NS (NS_PER_S / 2000)
/* A flow becomes slow when it takes this many times as long. */
#define SLOW 4
#define SURE 16
/* Reads of a flow that became slow before it is tried again. */
#define RELAPSE 1000

static void set_lumps(struct flow *flow, bool lumps)
{
    const int least = lumps ? LUMP_SIZE : 1;
    flow->lumps = lumps;
    setsockopt(flow->fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

static void adapt(struct flow *flow, size_t n)
{
    const int64_t now = now_ns();
    const int64_t took_ns = now - flow->read_ns;
    const int64_t due_ns = (int64_t)n * LUMP_NS / LUMP_SIZE;
    flow->read_ns = now;
    if (took_ns > SLOW * due_ns) {
        flow->quick_reads = flow->lumps ? -RELAPSE : 0;
        if (flow->lumps)
            set_lumps(flow, false);
    } else if (took_ns <= due_ns && !flow->lumps && ++flow->quick_reads >= SURE) {
        set_lumps(flow, true);
    }
}

/* In a window that was asked for, or of small segments, so much might not fit. */
static bool may_adapt(const struct bulk_params *params)
{
    const struct socket_options *options = &params->link.options;
    return params->mode != MODE_COPY && !options->window && !options->mss;
}

ssize_t receive_some(struct flow *flow, int flags)
{
    const ssize_t n = payload_receive(flow, flags);
    if (n > 0) {
        const uint64_t before = atomic_load_explicit(&flow->bytes, memory_order_relaxed);
        atomic_store_explicit(&flow->bytes, before + (uint64_t)n, memory_order_relaxed);
        if (before == 0)
            flow_begun(flow);
        if (may_adapt(&flow->way->bulk->params))
            adapt(flow, (size_t)n);
    }
    return n;
}

void receive_ended(struct flow *flow, ssize_t how)
{
    const int problem = is_cancelled(flow->way->bulk) ? ECANCELED
                        : how < 0                     ? errno
                        : flow->bytes == 0            ? ECONNRESET
                                                      : 0;
    if (!problem) {
        /* Tells the sender that everything has been read. */
        linger_reset(flow->fd, false);
        shutdown(flow->fd, SHUT_WR);
    }
    flow_ended(flow, problem);
}

void receive_flow(struct worker *worker, struct flow *flow)
{
    ssize_t n = 0;
    /* A shutdown() ends a wait, but while there is something to read none is needed. */
    while (!is_cancelled(flow->way->bulk) &&
           ((n = receive_some(flow, 0)) > 0 || (n < 0 && errno == EINTR)))
        if (worker_must_split(worker))
            worker_split(worker);
    receive_ended(flow, n);
}
