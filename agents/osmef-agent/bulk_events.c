/* The output of a bulk transfer as events of the protocol. */
#include "bulk.h"
#include "clock.h"
#include "events.h"
#include "out.h"

#include <stdio.h>

const char *const bulk_modes[] = {"copy", "zerocopy", "discard", "zerocopy-discard", NULL};
const char *const bulk_directions[] = {"forward", "reverse", "both", NULL};

static void write_tcp_series(const struct way *way, const struct interval *interval,
                             enum tcp_value which)
{
    out_format(",\"%s\":", tcp_names[which]);
    if (way->role == RECEIVER) {
        out_format("null");
        return;
    }
    for (int i = 0; i < way->count; i++)
        write_value(i ? "," : "[", interval->tcp[i].value[which]);
    out_format("]");
}

static void write_interval(const struct way *way, const struct interval *interval)
{
    event_begin(way->bulk->threads.job, "interval");
    out_format(",\"role\":\"%s\",\"start_s\":%.9f,\"length_s\":%.9f,\"warmup\":%s,\"bytes\":",
               way->role == SENDER ? "sender" : "receiver", interval->start_s, interval->length_s,
               interval->warmup ? "true" : "false");
    for (int i = 0; i < way->count; i++)
        out_format("%s%llu", i ? "," : "[", (unsigned long long)interval->bytes[i]);
    out_format("]");
    write_tcp_series(way, interval, TCP_RETRANSMITS);
    write_tcp_series(way, interval, TCP_RTT_US);
    write_tcp_series(way, interval, TCP_CWND);
    event_end();
}

static void write_connected(const struct bulk *bulk)
{
    event_report.connected(bulk->threads.job);
}

const struct bulk_view bulk_event_view = {write_connected, write_interval};

static void write_growth(const struct flow *flow, enum tcp_value which)
{
    const int64_t later = flow->tcp.value[which];
    out_format(",\"%s\":", tcp_names[which]);
    if (flow->way->role == RECEIVER)
        out_format("null");
    else
        write_value("", flow->way->warm.taken
                            ? tcp_growth(which, flow->warm_tcp.value[which], later)
                            : later);
}

static void write_measured(const struct flow *flow, const struct worker *own)
{
    const struct way *way = flow->way;
    const uint64_t before = way->warm.taken ? way->warm.bytes[flow->index] : 0;
    out_format(",\"measured\":{\"bytes\":%llu", (unsigned long long)(flow->bytes - before));
    write_cpu_time(",", own ? &own->measured_cpu : NULL);
    write_growth(flow, TCP_RETRANSMITS);
    write_growth(flow, TCP_RETRANSMITTED_BYTES);
    write_growth(flow, TCP_BUSY_US);
    write_growth(flow, TCP_RECEIVE_WINDOW_LIMITED_US);
    write_growth(flow, TCP_SEND_BUFFER_LIMITED_US);
    out_format("}");
}

static void write_times(const struct flow *flow)
{
    const int64_t start_ns = flow->way->bulk->threads.start_ns;
    const double length_s = ns_seconds(flow->end_ns - flow->start_ns);
    out_format(",\"start_s\":%.9f,\"end_s\":%.9f", ns_seconds(flow->start_ns - start_ns),
               ns_seconds(flow->end_ns - start_ns));
    if (length_s > 0)
        out_format(",\"goodput_bps\":%.0f", 8 * (double)flow->bytes / length_s);
    else
        out_format(",\"goodput_bps\":null");
}

static void write_flow(const struct flow *flow)
{
    const struct way *way = flow->way;
    const int i = flow->index;
    const struct worker *own = way->threads == way->count ? &way->workers[i] : NULL;
    out_format("%s{\"flow\":%d,\"bytes\":%llu,\"common_bytes\":", i ? "," : "", i,
               (unsigned long long)flow->bytes);
    if (way->common_from)
        out_format("%llu",
                   (unsigned long long)(way->first_ended.bytes[i] - way->common_from->bytes[i]));
    else
        out_format("null");
    write_times(flow);
    write_value(",\"bursts\":", way->role == SENDER ? flow->bursts : UNKNOWN);
    out_format(",\"mptcp\":%s", flow->mptcp == UNKNOWN ? "null" : flow->mptcp ? "true" : "false");
    write_cpu_time(",", own ? &own->thread->cpu : NULL);
    write_value(",\"last_cpu\":", own ? own->thread->cpu.last_cpu : UNKNOWN);
    write_tcp(&flow->tcp);
    write_measured(flow, own);
    out_format("}");
}

static void write_threads(const struct way *way)
{
    out_format(",\"threads\":");
    if (way->threads == way->count) {
        out_format("null");
        return;
    }
    for (int i = 0; i < way->threads; i++) {
        const struct worker *worker = &way->workers[i];
        write_cpu_time(i ? ",{" : "[{", &worker->thread->cpu);
        write_value(",\"last_cpu\":", worker->thread->cpu.last_cpu);
        write_cpu_time(",\"measured\":{", &worker->measured_cpu);
        out_format("}}");
    }
    out_format("]");
}

static const char *mode_of(const struct way *way)
{
    const int mode = way->bulk->params.mode;
    const int plain = way->role == SENDER ? MODE_ZEROCOPY : MODE_DISCARD;
    return bulk_modes[mode == plain || mode == MODE_ZEROCOPY_DISCARD ? plain : MODE_COPY];
}

static void write_way(const char *name, const struct way *way)
{
    out_format(",\"%s\":", name);
    if (way->count == 0) {
        out_format("null");
        return;
    }
    out_format("{\"mode\":\"%s\"", mode_of(way));
    if (way->common_from)
        out_format(",\"common_start_s\":%.9f,\"common_length_s\":%.9f",
                   ns_seconds(way->common_from->at_ns - way->bulk->threads.start_ns),
                   ns_seconds(way->first_ended.at_ns - way->common_from->at_ns));
    else
        out_format(",\"common_start_s\":null,\"common_length_s\":null");
    write_threads(way);
    out_format(",\"flows\":[");
    for (int i = 0; i < way->count; i++)
        write_flow(&way->flows[i]);
    out_format("]}");
}

static void write_affinity(const struct affinity *affinity)
{
    out_format(",\"cpus\":%s", affinity->count ? "[" : "null");
    for (int i = 0; i < affinity->count; i++)
        out_format("%s%d%s", i ? "," : "", affinity->cpus[i], i + 1 == affinity->count ? "]" : "");
}

void bulk_write_result(const struct bulk *bulk)
{
    const struct flow_threads *threads = &bulk->threads;
    const struct usage *measured = &bulk->measured;
    const double measured_s = ns_seconds(measured->at_ns - threads->start_ns);
    out_format(",\"direction\":\"%s\",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f,\"refused\":%d",
               bulk_directions[bulk->params.link.handshake.direction],
               (long long)threads->start_realtime_ns, threads->elapsed_s, threads->link.refused);
    write_affinity(&bulk->params.affinity);
    write_way("sending", &bulk->ways[SENDER]);
    write_way("receiving", &bulk->ways[RECEIVER]);
    threads_write_end(threads);
    out_format(",\"measured\":{\"start_s\":%.9f,\"length_s\":%.9f", measured_s,
               threads->elapsed_s - measured_s);
    write_process(&measured->process);
    write_endpoint(&measured->endpoint);
    out_format("}");
}
