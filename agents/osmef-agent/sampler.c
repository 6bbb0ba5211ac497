#include "sampler.h"

#include "clock.h"

/* What the last sample of a way showed. */
struct series {
    uint64_t bytes[MAX_FLOWS];
    int64_t retransmits[MAX_FLOWS];
};

static struct {
    struct sampler public;
    int64_t count; /* of deadlines so far, in this part */
    int64_t last_ns;
    struct series series[ROLES];
    struct interval interval;
} sampler;

/* Deadlines are absolute, so that they don't drift. They count from the start up to the end of the
 * warm-up, where one falls exactly, and from there to the end of the transfer. None is set within
 * half an interval before such an end: the interval before it takes in what remains, else it would
 * be a splinter. */
static void set_deadline(const struct bulk *bulk)
{
    const struct bulk_params *params = &bulk->params;
    const double from_s = bulk->is_warm ? params->warmup_s : 0;
    const double length_s = bulk->is_warm ? params->duration_s : params->warmup_s;
    const double at_s = (double)++sampler.count * params->interval_s;
    if (at_s <= length_s - params->interval_s / 2)
        sampler.public.next_ns = bulk->start_ns + seconds_ns(from_s + at_s);
    else
        sampler.public.next_ns =
            bulk->is_warm ? FOREVER : bulk->start_ns + seconds_ns(params->warmup_s);
}

const struct sampler *sampler_start(const struct bulk *bulk)
{
    sampler.count = 0;
    sampler.last_ns = bulk->start_ns;
    for (int role = 0; role < ROLES; role++)
        for (int i = 0; i < bulk->ways[role].count; i++)
            sampler.series[role].bytes[i] = sampler.series[role].retransmits[i] = 0;
    set_deadline(bulk);
    return &sampler.public;
}

static void sample_tcp(const struct flow *flow, struct tcp_state *tcp)
{
    int64_t *before = &sampler.series[SENDER].retransmits[flow->index];
    tcp_state_read(flow->fd, tcp);
    const int64_t total = tcp->value[TCP_RETRANSMITS];
    tcp->value[TCP_RETRANSMITS] = tcp_growth(TCP_RETRANSMITS, *before, total);
    *before = total;
}

static void report_way(const struct way *way)
{
    struct interval *interval = &sampler.interval;
    struct series *series = &sampler.series[way->role];
    for (int i = 0; i < way->count; i++) {
        const uint64_t total = atomic_load_explicit(&way->flows[i].bytes, memory_order_relaxed);
        interval->bytes[i] = total - series->bytes[i];
        series->bytes[i] = total;
    }
    for (int i = 0; way->role == SENDER && i < way->count; i++)
        sample_tcp(&way->flows[i], &interval->tcp[i]);
    way->bulk->view->interval(way, interval);
}

static void report_until(const struct bulk *bulk, int64_t end_ns)
{
    struct interval *interval = &sampler.interval;
    interval->start_s = ns_seconds(sampler.last_ns - bulk->start_ns);
    interval->length_s = ns_seconds(end_ns - sampler.last_ns);
    interval->warmup = !bulk->is_warm;
    sampler.last_ns = end_ns;
    for (int role = 0; role < ROLES; role++)
        if (bulk->ways[role].count > 0)
            report_way(&bulk->ways[role]);
}

void sampler_end_warmup(struct bulk *bulk, int64_t now)
{
    for (int role = 0; role < ROLES; role++) {
        struct way *way = &bulk->ways[role];
        for (int i = 0; i < way->count; i++) {
            way->warm.bytes[i] = sampler.series[role].bytes[i];
            if (role == SENDER)
                tcp_state_read(way->flows[i].fd, &way->flows[i].warm_tcp);
        }
        way->warm.at_ns = now;
        way->warm.taken = true;
    }
    bulk->is_warm = true;
    sampler.count = 0;
}

void sampler_tick(struct bulk *bulk)
{
    const int64_t now = now_ns();
    report_until(bulk, now);
    if (!bulk->is_warm && now >= bulk->start_ns + seconds_ns(bulk->params.warmup_s))
        sampler_end_warmup(bulk, now);
    while (sampler.public.next_ns <= now)
        set_deadline(bulk);
}

void sampler_finish(const struct bulk *bulk, int64_t end_ns)
{
    /* The last flow may have ended just before a deadline: then nothing is left to report. */
    if (end_ns > sampler.last_ns)
        report_until(bulk, end_ns);
}
