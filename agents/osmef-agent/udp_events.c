/* The output of a UDP job as events of the protocol. */
#include "events.h"
#include "out.h"
#include "tcpinfo.h"
#include "udp.h"

#include <string.h>

static unsigned long long ull(uint64_t value)
{
    return (unsigned long long)value;
}

static uint64_t lost(const struct datagram_stats *stats, uint64_t sent)
{
    return sent > stats->received ? sent - stats->received : 0;
}

static void write_counts(const struct datagram_stats *s, uint64_t sent)
{
    out_format("\"sent\":%llu,\"datagrams\":%llu,\"bytes\":%llu,\"lost\":%llu,\"reordered\":%llu,"
               "\"duplicates\":%llu,\"late\":%llu",
               ull(sent), ull(s->received), ull(s->bytes), ull(lost(s, sent)), ull(s->reordered),
               ull(s->duplicates), ull(s->late));
}

static void write_us(const char *name, double ns, bool known)
{
    if (known)
        out_format("\"%s\":%.3f", name, ns / 1e3);
    else
        out_format("\"%s\":null", name);
}

static void write_quantile(const char *name, const struct histogram *histogram, double quantile)
{
    write_us(name, (double)histogram_quantile(histogram, quantile), histogram->count > 0);
}

static void write_delays(const struct datagram_stats *s)
{
    const bool known = s->jitter_count > 0;
    out_format(",");
    write_us("jitter_us", known ? s->jitter_sum_ns / (double)s->jitter_count : 0, known);
    out_format(",");
    write_us("jitter_max_us", s->jitter_max_ns, known);
    out_format(",\"delay_variation\":{\"count\":%llu,", ull(s->variation.count));
    write_quantile("p50_us", &s->variation, 0.5);
    out_format(",");
    write_quantile("p90_us", &s->variation, 0.9);
    out_format(",");
    write_quantile("p99_us", &s->variation, 0.99);
    out_format(",");
    write_quantile("p999_us", &s->variation, 0.999);
    out_format(",");
    write_us("max_us", (double)s->variation.max_ns, s->variation.count > 0);
    out_format("}");
}

/* The time of the arrivals, which queues on the path make longer than that of the sending. */
static double received_s(const struct udp_flow *flow)
{
    const int64_t taken_ns = flow->last_ns - flow->first_ns;
    return ns_seconds(taken_ns > flow->length_ns ? taken_ns : flow->length_ns);
}

static void write_rate(const char *name, uint64_t bytes, double length_s)
{
    if (length_s > 0)
        out_format(",\"%s\":%.0f", name, 8 * (double)bytes / length_s);
    else
        out_format(",\"%s\":null", name);
}

static void write_receiver(const struct udp_flow *flow)
{
    const struct datagram_stats *measured = &flow->stats[UDP_MEASURED];
    write_counts(measured, flow->sent[UDP_MEASURED]);
    write_rate("goodput_bps", measured->bytes, received_s(flow));
    out_format(",\"length_s\":%.9f,\"reordering_extent_max\":%llu,\"loss_episodes\":%llu,"
               "\"loss_longest\":%llu,\"foreign\":%llu,\"receive_buffer\":%d,\"dropped\":",
               received_s(flow), ull(measured->extent_max), ull(measured->episodes),
               ull(measured->longest_episode), ull(flow->foreign), flow->receive_buffer);
    write_value("", flow->coalesced ? UNKNOWN : (int64_t)(flow->dropped - flow->dropped_before));
    write_delays(measured);
    out_format(",\"warmup\":{");
    write_counts(&flow->stats[UDP_WARMUP], flow->sent[UDP_WARMUP]);
    out_format("}");
}

static void write_sender(const struct udp_flow *flow)
{
    const uint64_t size = (uint64_t)flow->udp->params.size;
    const uint64_t bytes = flow->sent[UDP_MEASURED] * size;
    out_format("\"sent\":%llu,\"bytes\":%llu", ull(flow->sent[UDP_MEASURED]), ull(bytes));
    write_rate("sent_bps", bytes, ns_seconds(flow->length_ns));
    out_format(",\"length_s\":%.9f,\"send_refused\":%llu,\"behind_max_us\":%.3f,"
               "\"slipped_s\":%.9f,\"segmented\":%s,\"path_mtu\":",
               ns_seconds(flow->length_ns), ull(flow->refused), (double)flow->behind_max_ns / 1e3,
               ns_seconds(flow->slipped_ns), flow->segmented ? "true" : "false");
    write_value("", flow->path_mtu);
    out_format(",\"warmup\":{\"sent\":%llu,\"bytes\":%llu}", ull(flow->sent[UDP_WARMUP]),
               ull(flow->sent[UDP_WARMUP] * size));
}

static void write_flow(const struct udp_flow *flow)
{
    out_format("%s{\"flow\":%d,", flow->index ? "," : "", flow->index);
    if (threads_send(&flow->udp->threads))
        write_sender(flow);
    else
        write_receiver(flow);
    out_format(",\"end_s\":%.9f,\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f}",
               ns_seconds(flow->thread->end_ns - flow->udp->threads.start_ns),
               flow->thread->cpu.user_s, flow->thread->cpu.system_s);
}

/* The delay variation of all flows together, since one histogram for each flow would be long. */
static void write_histogram(const struct udp *udp)
{
    static struct histogram all;
    memset(&all, 0, sizeof all);
    for (int i = 0; i < udp->count; i++)
        histogram_merge(&all, &udp->flows[i].stats[UDP_MEASURED].variation);
    out_format(",");
    histogram_write(&all);
}

void udp_write_result(const struct udp *udp)
{
    threads_write_begin(&udp->threads);
    out_format(",\"elapsed_s\":%.9f,\"flows\":[", udp->threads.elapsed_s);
    for (int i = 0; i < udp->count; i++)
        write_flow(&udp->flows[i]);
    out_format("]");
    if (!threads_send(&udp->threads))
        write_histogram(udp);
    threads_write_end(&udp->threads);
}

/* The series of intervals. */
static struct {
    struct series times;
    int64_t shown[MAX_FLOWS][UDP_SHOWN];
} series;

static const char *const names[UDP_SHOWN] = {
    "bytes",     "datagrams",  "send_refused", "behind_us", "lost",
    "reordered", "duplicates", "dropped",      "jitter_us",
};

/* The others are counters, reported as the increase in the interval. */
static bool is_gauge(int which)
{
    return which == UDP_BEHIND_NS || which == UDP_JITTER_NS;
}

static bool applies(const struct udp *udp, int which)
{
    if (which <= UDP_DATAGRAMS)
        return true;
    return threads_send(&udp->threads) == (which <= UDP_BEHIND_NS);
}

static void set_deadline(const struct udp *udp)
{
    const struct udp_params *p = &udp->params;
    series_advance(&series.times, udp->threads.start_ns, p->interval_s, p->warmup_s + p->duration_s,
                   FOREVER);
}

void udp_series_begin(const struct udp *udp)
{
    series.times.count = 0;
    series.times.last_ns = udp->threads.start_ns;
    memset(series.shown, 0, sizeof *series.shown * (size_t)udp->count);
    set_deadline(udp);
}

static void write_values(const struct udp *udp, int which)
{
    out_format(",\"%s\":", names[which]);
    if (!applies(udp, which)) {
        out_format("null");
        return;
    }
    for (int i = 0; i < udp->count; i++) {
        const int64_t total =
            atomic_load_explicit(&udp->flows[i].shown[which], memory_order_relaxed);
        if (total == UNKNOWN)
            out_format("%snull", i ? "," : "[");
        else if (is_gauge(which))
            out_format("%s%.3f", i ? "," : "[", (double)total / 1e3);
        else
            out_format("%s%lld", i ? "," : "[", (long long)(total - series.shown[i][which]));
        series.shown[i][which] = total;
    }
    out_format("]");
}

static void write_interval(const struct udp *udp, int64_t end_ns)
{
    event_begin(udp->threads.job, "interval");
    out_format(",\"role\":\"%s\",\"start_s\":%.9f,\"length_s\":%.9f",
               threads_send(&udp->threads) ? "sender" : "receiver",
               ns_seconds(series.times.last_ns - udp->threads.start_ns),
               ns_seconds(end_ns - series.times.last_ns));
    for (int i = 0; i < UDP_SHOWN; i++)
        write_values(udp, i);
    event_end();
    series.times.last_ns = end_ns;
}

int64_t udp_series_tick(const struct udp *udp)
{
    const int64_t now = now_ns();
    if (now < series.times.next_ns)
        return series.times.next_ns;
    write_interval(udp, now);
    while (series.times.next_ns <= now)
        set_deadline(udp);
    return series.times.next_ns;
}

void udp_series_finish(const struct udp *udp, int64_t end_ns)
{
    /* The losses are final only now, and a main thread under load may have been late. */
    write_interval(udp, end_ns > series.times.last_ns ? end_ns : now_ns());
}
