#include "watchdog.h"

#include "clock.h"

/* How long senders' queues may take to empty after the end, as long as they move at all. */
#define DRAIN_S 60.0
#define LOOKS_PER_TIMEOUT 10

static struct {
    struct watchdog public;
    int64_t progress[MAX_FLOWS];
    int64_t moved_ns; /* when any of them did */
} watchdog;

static void set_next(const struct bulk *bulk)
{
    watchdog.public.next_ns =
        now_ns() + seconds_ns(bulk->params.link.stall_timeout_s / LOOKS_PER_TIMEOUT);
}

const struct watchdog *watchdog_start(const struct bulk *bulk)
{
    for (int i = 0; i < bulk->count; i++)
        watchdog.progress[i] = 0;
    watchdog.moved_ns = bulk->start_ns;
    set_next(bulk);
    return &watchdog.public;
}

/* A sender's bytes count when the peer has acknowledged them: its buffers say nothing of the link.
 */
static int64_t progress_of(const struct bulk *bulk, const struct flow *flow)
{
    const int64_t bytes = (int64_t)atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    return bulk->role == SENDER ? bytes - tcp_unacknowledged(flow->fd) : bytes;
}

static bool has_moved(const struct bulk *bulk, const struct flow *flow)
{
    if (atomic_load(&flow->has_ended))
        return false;
    const int64_t before = watchdog.progress[flow->index];
    watchdog.progress[flow->index] = progress_of(bulk, flow);
    return watchdog.progress[flow->index] != before;
}

/* Many flows on a slow link starve each other for a while, and a share of nothing is a result. What
 * fails is a transfer in which none moves. */
void watchdog_look(struct bulk *bulk)
{
    const int64_t now = now_ns();
    int waiting = -1;
    for (int i = 0; i < bulk->count; i++) {
        if (has_moved(bulk, &bulk->flows[i]))
            watchdog.moved_ns = now;
        else if (waiting < 0 && !atomic_load(&bulk->flows[i].has_ended))
            waiting = i;
    }
    if (ns_seconds(now - watchdog.moved_ns) >= bulk->params.link.stall_timeout_s)
        job_fail(bulk->job, "stalled", waiting,
                 "no byte for %g s; is the link up and the peer alive?",
                 bulk->params.link.stall_timeout_s);
    if (ns_seconds(now - bulk->start_ns) > bulk->params.duration_s + DRAIN_S)
        job_fail(bulk->job, "stalled", -1,
                 "the flows have not drained %g s after their end; the link is very slow", DRAIN_S);
    set_next(bulk);
}
