#include "sampler.h"

#include "clock.h"

/* The counters of a direction at the last sample. */
struct sample {
    uint64_t bytes[MAX_FLOWS];
    int64_t retransmits[MAX_FLOWS];
};

static struct {
    struct series series; /* of the current part: the warm-up, or what follows */
    struct sample samples[ROLES];
    struct interval interval;
} sampler;

/* One deadline is exactly the end of the warm-up. */
static void set_deadline(const struct bulk *bulk)
{
    const struct bulk_params *params = &bulk->params;
    const int64_t start_ns = bulk->threads.start_ns;
    const int64_t warm_ns = start_ns + seconds_ns(params->warmup_s);
    if (bulk->is_warm)
        series_advance(&sampler.series, warm_ns, params->interval_s, params->duration_s, FOREVER);
    else
        series_advance(&sampler.series, start_ns, params->interval_s, params->warmup_s, warm_ns);
}

void sampler_start(const struct bulk *bulk)
{
    sampler.series.count = 0;
    sampler.series.last_ns = bulk->threads.start_ns;
    for (int role = 0; role < ROLES; role++)
        for (int i = 0; i < bulk->ways[role].count; i++)
            sampler.samples[role].bytes[i] = sampler.samples[role].retransmits[i] = 0;
    set_deadline(bulk);
}

static void sample_tcp(const struct flow *flow, struct tcp_state *tcp)
{
    int64_t *before = &sampler.samples[SENDER].retransmits[flow->index];
    tcp_state_read(flow->fd, tcp);
    const int64_t total = tcp->value[TCP_RETRANSMITS];
    tcp->value[TCP_RETRANSMITS] = tcp_growth(TCP_RETRANSMITS, *before, total);
    *before = total;
}

static void report_way(const struct way *way)
{
    struct interval *interval = &sampler.interval;
    struct sample *sample = &sampler.samples[way->role];
    for (int i = 0; i < way->count; i++) {
        const uint64_t total = atomic_load_explicit(&way->flows[i].bytes, memory_order_relaxed);
        interval->bytes[i] = total - sample->bytes[i];
        sample->bytes[i] = total;
    }
    for (int i = 0; way->role == SENDER && i < way->count; i++)
        sample_tcp(&way->flows[i], &interval->tcp[i]);
    way->bulk->view->interval(way, interval);
}

static void report_until(const struct bulk *bulk, int64_t end_ns)
{
    struct interval *interval = &sampler.interval;
    interval->start_s = ns_seconds(sampler.series.last_ns - bulk->threads.start_ns);
    interval->length_s = ns_seconds(end_ns - sampler.series.last_ns);
    interval->warmup = !bulk->is_warm;
    sampler.series.last_ns = end_ns;
    for (int role = 0; role < ROLES; role++)
        if (bulk->ways[role].count > 0)
            report_way(&bulk->ways[role]);
}

void sampler_end_warmup(struct bulk *bulk, int64_t now)
{
    for (int role = 0; role < ROLES; role++) {
        struct way *way = &bulk->ways[role];
        for (int i = 0; i < way->count; i++) {
            way->warm.bytes[i] = sampler.samples[role].bytes[i];
            if (role == SENDER)
                tcp_state_read(way->flows[i].fd, &way->flows[i].warm_tcp);
        }
        way->warm.at_ns = now;
        way->warm.taken = true;
    }
    bulk->is_warm = true;
    sampler.series.count = 0;
}

int64_t sampler_tick(struct bulk *bulk)
{
    const int64_t now = now_ns();
    if (now < sampler.series.next_ns)
        return sampler.series.next_ns;
    report_until(bulk, now);
    if (!bulk->is_warm && now >= bulk->threads.start_ns + seconds_ns(bulk->params.warmup_s))
        sampler_end_warmup(bulk, now);
    while (sampler.series.next_ns <= now)
        set_deadline(bulk);
    return sampler.series.next_ns;
}

void sampler_finish(const struct bulk *bulk, int64_t end_ns)
{
    /* If the last flow ended just before a deadline, nothing is left to report. */
    if (end_ns > sampler.series.last_ns)
        report_until(bulk, end_ns);
}
