#include "bulk_events.h"

#include "clock.h"
#include "events.h"
#include "out.h"

#include <stdio.h>

static void tell_role(const struct bulk *bulk)
{
    out_format(",\"role\":\"%s\"", bulk->role == SENDER ? "sender" : "receiver");
}

static void tell_tcp_series(const struct bulk *bulk, const struct interval *interval,
                            enum tcp_value which)
{
    out_format(",\"%s\":", tcp_names[which]);
    if (bulk->role == RECEIVER) {
        out_format("null");
        return;
    }
    for (int i = 0; i < bulk->count; i++)
        tell_value(i ? "," : "[", interval->tcp[i].value[which]);
    out_format("]");
}

static void tell_interval(const struct bulk *bulk, const struct interval *interval)
{
    event_begin(bulk->job, "interval");
    tell_role(bulk);
    out_format(",\"start_s\":%.9f,\"length_s\":%.9f,\"bytes\":", interval->start_s,
               interval->length_s);
    for (int i = 0; i < bulk->count; i++)
        out_format("%s%llu", i ? "," : "[", (unsigned long long)interval->bytes[i]);
    out_format("]");
    tell_tcp_series(bulk, interval, TCP_RETRANSMITS);
    tell_tcp_series(bulk, interval, TCP_RTT_US);
    tell_tcp_series(bulk, interval, TCP_CWND);
    event_end();
}

static void tell_connected(const struct bulk *bulk)
{
    event_report.connected(bulk->job);
}

const struct bulk_view bulk_event_view = {tell_connected, tell_interval};

static void tell_flow(const struct bulk *bulk, const struct flow *flow)
{
    const int i = flow->index;
    out_format("%s{\"flow\":%d,\"bytes\":%llu,\"common_bytes\":", i ? "," : "", i,
               (unsigned long long)flow->bytes);
    if (bulk->role == SENDER)
        out_format("null");
    else
        out_format("%llu",
                   (unsigned long long)(bulk->first_ended.bytes[i] - bulk->all_begun.bytes[i]));
    const double length_s = ns_seconds(flow->end_ns - flow->start_ns);
    out_format(",\"start_s\":%.9f,\"end_s\":%.9f", ns_seconds(flow->start_ns - bulk->start_ns),
               ns_seconds(flow->end_ns - bulk->start_ns));
    if (length_s > 0)
        out_format(",\"goodput_bps\":%.0f", 8 * (double)flow->bytes / length_s);
    else
        out_format(",\"goodput_bps\":null");
    tell_cpu(&flow->cpu);
    tell_tcp(&flow->tcp);
    out_format("}");
}

void bulk_tell_result(const struct bulk *bulk)
{
    const struct outcome *outcome = &bulk->outcome;
    tell_role(bulk);
    out_format(",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f",
               (long long)outcome->start_realtime_ns, outcome->elapsed_s);
    if (bulk->role == SENDER)
        out_format(",\"common_start_s\":null,\"common_length_s\":null");
    else
        out_format(",\"common_start_s\":%.9f,\"common_length_s\":%.9f", outcome->common_start_s,
                   outcome->common_length_s);
    out_format(",\"refused\":%d,\"flows\":[", bulk->link.refused);
    for (int i = 0; i < bulk->count; i++)
        tell_flow(bulk, &bulk->flows[i]);
    out_format("]");
    tell_process(&outcome->process);
    tell_endpoint(&outcome->endpoint);
}
