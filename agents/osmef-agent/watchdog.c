#include "watchdog.h"

#include "clock.h"

#include <math.h>

/* How long senders' queues may take to empty after the end, as long as they move at all; longer
 * where nothing may move for longer. */
#define DRAIN_S 60.0
#define LOOKS_PER_TIMEOUT 10

static struct {
    struct watchdog public;
    int64_t progress[MAX_FLOWS]; /* of each connection */
    int64_t moved_ns[ROLES];     /* when any flow of the way did */
} watchdog;

static void set_next(const struct bulk *bulk)
{
    watchdog.public.next_ns =
        now_ns() + seconds_ns(bulk->params.link.stall_timeout_s / LOOKS_PER_TIMEOUT);
}

const struct watchdog *watchdog_start(const struct bulk *bulk)
{
    for (int i = 0; i < bulk->link.flows; i++)
        watchdog.progress[i] = 0;
    for (int role = 0; role < ROLES; role++)
        watchdog.moved_ns[role] = bulk->start_ns;
    set_next(bulk);
    return &watchdog.public;
}

/* A sender's bytes count when the peer has acknowledged them: its buffers say nothing of the link.
 */
static int64_t progress_of(const struct flow *flow)
{
    const int64_t bytes = (int64_t)atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    return flow->way->role == SENDER ? bytes - tcp_unacknowledged(flow->fd) : bytes;
}

static bool has_moved(const struct flow *flow)
{
    int64_t *before = &watchdog.progress[flow->connection];
    const int64_t progress = progress_of(flow);
    const bool moved = progress != *before;
    *before = progress;
    return moved;
}

/* Many flows on a slow link starve each other for a while, and a share of nothing is a result. What
 * fails is a way in which none moves. */
static void look_at(struct way *way, int64_t now)
{
    const struct bulk_params *params = &way->bulk->params;
    int64_t *moved_ns = &watchdog.moved_ns[way->role];
    int waiting = -1;
    for (int i = 0; i < way->count; i++) {
        const struct flow *flow = &way->flows[i];
        if (atomic_load(&flow->has_ended))
            continue;
        if (has_moved(flow))
            *moved_ns = now;
        else if (waiting < 0)
            waiting = flow->connection;
    }
    const bool moves = ns_seconds(now - *moved_ns) < params->link.stall_timeout_s + params->idle_s;
    if (waiting >= 0 && !moves)
        job_fail(way->bulk->job, "stalled", waiting,
                 "no byte for %g s; is the link up and the peer alive?",
                 params->link.stall_timeout_s + params->idle_s);
}

void watchdog_look(struct bulk *bulk)
{
    const int64_t now = now_ns();
    for (int role = 0; role < ROLES; role++)
        look_at(&bulk->ways[role], now);
    const double drain_s = fmax(DRAIN_S, bulk->params.link.stall_timeout_s);
    if (ns_seconds(now - bulk->start_ns) > bulk_sending_s(bulk) + drain_s)
        job_fail(bulk->job, "stalled", -1,
                 "the flows have not drained %g s after their end; the link is very slow", drain_s);
    set_next(bulk);
}
