#include "sampler.h"

#include "clock.h"

static struct {
    struct sampler public;
    int64_t count; /* of deadlines so far */
    int64_t last_ns;
    uint64_t bytes[MAX_FLOWS];
    int64_t retransmits[MAX_FLOWS];
    struct interval interval;
} sampler;

/* Deadlines are absolute, so that they don't drift. None is set within half an interval of the
 * end or behind it: the last interval takes in what remains, else it would be a splinter. */
static void set_deadline(const struct bulk *bulk)
{
    const double at_s = (double)++sampler.count * bulk->params.interval_s;
    const bool last = at_s > bulk->params.duration_s - bulk->params.interval_s / 2;
    sampler.public.next_ns = last ? FOREVER : bulk->start_ns + seconds_ns(at_s);
}

const struct sampler *sampler_start(const struct bulk *bulk)
{
    sampler.count = 0;
    sampler.last_ns = bulk->start_ns;
    for (int i = 0; i < bulk->count; i++) {
        sampler.bytes[i] = 0;
        sampler.retransmits[i] = 0;
    }
    set_deadline(bulk);
    return &sampler.public;
}

static void sample_tcp(const struct flow *flow, struct tcp_state *tcp)
{
    const int i = flow->index;
    tcp_state_read(flow->fd, tcp);
    const int64_t total = tcp->value[TCP_RETRANSMITS];
    tcp->value[TCP_RETRANSMITS] = tcp_growth(TCP_RETRANSMITS, sampler.retransmits[i], total);
    sampler.retransmits[i] = total;
}

static void report_until(const struct bulk *bulk, int64_t end_ns)
{
    struct interval *interval = &sampler.interval;
    interval->start_s = ns_seconds(sampler.last_ns - bulk->start_ns);
    interval->length_s = ns_seconds(end_ns - sampler.last_ns);
    for (int i = 0; i < bulk->count; i++) {
        const uint64_t total = atomic_load_explicit(&bulk->flows[i].bytes, memory_order_relaxed);
        interval->bytes[i] = total - sampler.bytes[i];
        sampler.bytes[i] = total;
    }
    for (int i = 0; bulk->role == SENDER && i < bulk->count; i++)
        sample_tcp(&bulk->flows[i], &interval->tcp[i]);
    sampler.last_ns = end_ns;
    bulk->view->interval(bulk, interval);
}

void sampler_tick(const struct bulk *bulk)
{
    const int64_t now = now_ns();
    report_until(bulk, now);
    while (sampler.public.next_ns <= now)
        set_deadline(bulk);
}

void sampler_finish(const struct bulk *bulk, int64_t end_ns)
{
    /* The last flow may have ended just before a deadline: then nothing is left to report. */
    if (end_ns > sampler.last_ns)
        report_until(bulk, end_ns);
}
