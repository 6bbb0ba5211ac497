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
static void set_deadline(const struct job *job)
{
    const double at_s = (double)++sampler.count * job->params.interval_s;
    const bool last = at_s > job->params.duration_s - job->params.interval_s / 2;
    sampler.public.next_ns = last ? FOREVER : job->start_ns + seconds_ns(at_s);
}

const struct sampler *sampler_start(const struct job *job)
{
    sampler.count = 0;
    sampler.last_ns = job->start_ns;
    for (int i = 0; i < job->params.flows; i++) {
        sampler.bytes[i] = 0;
        sampler.retransmits[i] = 0;
    }
    set_deadline(job);
    return &sampler.public;
}

static void sample_tcp(const struct flow *flow, struct tcp_state *tcp)
{
    const int i = flow->index;
    tcp_state_read(flow->fd, tcp);
    const int64_t total = tcp->value[TCP_RETRANSMITS];
    if (total == UNKNOWN)
        return;
    tcp->value[TCP_RETRANSMITS] = total - sampler.retransmits[i];
    sampler.retransmits[i] = total;
}

static void report_until(const struct job *job, int64_t end_ns)
{
    struct interval *interval = &sampler.interval;
    interval->start_s = ns_seconds(sampler.last_ns - job->start_ns);
    interval->length_s = ns_seconds(end_ns - sampler.last_ns);
    for (int i = 0; i < job->params.flows; i++) {
        const uint64_t total = atomic_load_explicit(&job->flows[i].bytes, memory_order_relaxed);
        interval->bytes[i] = total - sampler.bytes[i];
        sampler.bytes[i] = total;
    }
    for (int i = 0; job->params.role == SENDER && i < job->params.flows; i++)
        sample_tcp(&job->flows[i], &interval->tcp[i]);
    sampler.last_ns = end_ns;
    job->report->interval(job, interval);
}

void sampler_tick(const struct job *job)
{
    const int64_t now = now_ns();
    report_until(job, now);
    while (sampler.public.next_ns <= now)
        set_deadline(job);
}

void sampler_finish(const struct job *job, int64_t end_ns)
{
    /* The last flow may have ended just before a deadline: then nothing is left to report. */
    if (end_ns > sampler.last_ns)
        report_until(job, end_ns);
}
