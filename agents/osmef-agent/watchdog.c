#include "watchdog.h"

#include "clock.h"

/* How long senders' queues may take to empty after the end, as long as they move at all. */
#define DRAIN_S 60.0
#define LOOKS_PER_TIMEOUT 10

static struct {
    struct watchdog public;
    int64_t progress[MAX_FLOWS];
    int64_t moved_ns[MAX_FLOWS];
} watchdog;

static void set_next(const struct bulk *bulk)
{
    watchdog.public.next_ns =
        now_ns() + seconds_ns(bulk->params.link.stall_timeout_s / LOOKS_PER_TIMEOUT);
}

const struct watchdog *watchdog_start(const struct bulk *bulk)
{
    for (int i = 0; i < bulk->count; i++) {
        watchdog.progress[i] = 0;
        watchdog.moved_ns[i] = bulk->start_ns;
    }
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

static void look_at(struct bulk *bulk, const struct flow *flow, int64_t now)
{
    const int i = flow->index;
    const int64_t progress = progress_of(bulk, flow);
    if (progress != watchdog.progress[i] || atomic_load(&flow->has_ended)) {
        watchdog.progress[i] = progress;
        watchdog.moved_ns[i] = now;
    }
    if (ns_seconds(now - watchdog.moved_ns[i]) >= bulk->params.link.stall_timeout_s)
        job_fail(bulk->job, "stalled", i, "no byte for %g s; is the link up and the peer alive?",
                 bulk->params.link.stall_timeout_s);
}

void watchdog_look(struct bulk *bulk)
{
    const int64_t now = now_ns();
    for (int i = 0; i < bulk->count; i++)
        look_at(bulk, &bulk->flows[i], now);
    if (ns_seconds(now - bulk->start_ns) > bulk->params.duration_s + DRAIN_S)
        job_fail(bulk->job, "stalled", -1,
                 "the flows have not drained %g s after their end; the link is very slow", DRAIN_S);
    set_next(bulk);
}
