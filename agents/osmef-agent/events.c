#include "events.h"

#include "clock.h"
#include "out.h"

#include <stdio.h>

static void begin_event(const struct job *job, const char *event)
{
    out_format("{\"event\":\"%s\",\"id\":\"%s\"", event, job->params.id);
}

static void end_event(void)
{
    out_format("}");
    out_line();
}

static void tell_role(const struct job *job)
{
    out_format(",\"role\":\"%s\"", job->params.role == SENDER ? "sender" : "receiver");
}

static void tell_value(const char *separator, int64_t value)
{
    if (value == UNKNOWN)
        out_format("%snull", separator);
    else
        out_format("%s%lld", separator, (long long)value);
}

static void tell_listening(const struct job *job)
{
    begin_event(job, "listening");
    out_format(",\"port\":%d", job->listening_port);
    end_event();
}

static void tell_connected(const struct job *job)
{
    begin_event(job, "connected");
    end_event();
}

static void tell_tcp_series(const struct job *job, const struct interval *interval,
                            enum tcp_value which)
{
    out_format(",\"%s\":", tcp_names[which]);
    if (job->params.role == RECEIVER) {
        out_format("null");
        return;
    }
    for (int i = 0; i < job->params.flows; i++)
        tell_value(i ? "," : "[", interval->tcp[i].value[which]);
    out_format("]");
}

static void tell_interval(const struct job *job, const struct interval *interval)
{
    begin_event(job, "interval");
    tell_role(job);
    out_format(",\"start_s\":%.9f,\"length_s\":%.9f,\"bytes\":", interval->start_s,
               interval->length_s);
    for (int i = 0; i < job->params.flows; i++)
        out_format("%s%llu", i ? "," : "[", (unsigned long long)interval->bytes[i]);
    out_format("]");
    tell_tcp_series(job, interval, TCP_RETRANSMITS);
    tell_tcp_series(job, interval, TCP_RTT_US);
    tell_tcp_series(job, interval, TCP_CWND);
    end_event();
}

static void tell_tcp(const struct tcp_state *tcp)
{
    out_format(",\"tcp\":{\"congestion_control\":");
    if (tcp->congestion_control[0])
        out_string(tcp->congestion_control);
    else
        out_format("null");
    for (int i = 0; i < TCP_VALUES; i++) {
        out_format(",\"%s\":", tcp_names[i]);
        tell_value("", tcp->value[i]);
    }
    out_format("}");
}

static void tell_flow(const struct job *job, const struct flow *flow)
{
    const int i = flow->index;
    out_format("%s{\"flow\":%d,\"bytes\":%llu,\"common_bytes\":", i ? "," : "", i,
               (unsigned long long)flow->bytes);
    if (job->params.role == SENDER)
        out_format("null");
    else
        out_format("%llu",
                   (unsigned long long)(job->first_ended.bytes[i] - job->all_begun.bytes[i]));
    const double length_s = ns_seconds(flow->end_ns - flow->start_ns);
    out_format(",\"start_s\":%.9f,\"end_s\":%.9f", ns_seconds(flow->start_ns - job->start_ns),
               ns_seconds(flow->end_ns - job->start_ns));
    if (length_s > 0)
        out_format(",\"goodput_bps\":%.0f", 8 * (double)flow->bytes / length_s);
    else
        out_format(",\"goodput_bps\":null");
    out_format(",\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f", flow->cpu.user_s, flow->cpu.system_s);
    tell_tcp(&flow->tcp);
    out_format("}");
}

static void tell_endpoint(const struct endpoint_time *endpoint)
{
    out_format(",\"endpoint\":{\"cpus\":%d,\"elapsed_s\":%.9f", endpoint->cpus,
               (double)endpoint->at_ns / 1e9);
    for (int i = 0; i < STAT_COLUMNS; i++) {
        if (i < endpoint->columns)
            out_format(",\"%s_s\":%.2f", stat_names[i], endpoint->seconds[i]);
        else
            out_format(",\"%s_s\":null", stat_names[i]);
    }
    out_format("}");
}

static void tell_result(const struct job *job)
{
    const struct outcome *outcome = &job->outcome;
    begin_event(job, "result");
    tell_role(job);
    out_format(",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f",
               (long long)outcome->start_realtime_ns, outcome->elapsed_s);
    if (job->params.role == SENDER)
        out_format(",\"common_start_s\":null,\"common_length_s\":null");
    else
        out_format(",\"common_start_s\":%.9f,\"common_length_s\":%.9f", outcome->common_start_s,
                   outcome->common_length_s);
    out_format(",\"refused\":%d,\"flows\":[", job->refused);
    for (int i = 0; i < job->params.flows; i++)
        tell_flow(job, &job->flows[i]);
    out_format("],\"process\":{\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,\"max_rss_kb\":%lld}",
               outcome->process.user_s, outcome->process.system_s, (long long)cpu_max_rss_kb());
    tell_endpoint(&outcome->endpoint);
    end_event();
}

static void tell_failed(const struct job *job)
{
    const struct failure *failure = &job->failure;
    begin_event(job, "error");
    out_format(",\"kind\":\"%s\",\"flow\":", failure->kind);
    tell_value("", failure->flow);
    out_format(",\"message\":");
    out_string(failure->message);
    end_event();
}

const struct report event_report = {tell_listening, tell_connected, tell_interval, tell_result,
                                    tell_failed};
