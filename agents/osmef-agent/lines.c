#include "lines.h"

#include "clock.h"
#include "out.h"

#include <stdio.h>

#define PROGRAM "osmef-agent"

/* Three digits and a decimal prefix: 9.41 Gbit/s. */
static void print_scaled(double value, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    int scale = 0;
    for (; value >= 999.5 && scale < 4; scale++)
        value /= 1000;
    out_format("%*.*f %s%s", 5,
               value < 9.995   ? 2
               : value < 99.95 ? 1
                               : 0,
               value, prefixes[scale], unit);
}

static void print_amount(uint64_t bytes, double length_s)
{
    out_format("  ");
    print_scaled((double)bytes, "B");
    out_format("  ");
    print_scaled(length_s > 0 ? (double)bytes * 8 / length_s : 0, "bit/s");
}

static int64_t sum_of(const struct way *way, const struct interval *interval, enum tcp_value which)
{
    int64_t sum = 0;
    for (int i = 0; i < way->count; i++) {
        if (interval->tcp[i].value[which] == UNKNOWN)
            return UNKNOWN;
        sum += interval->tcp[i].value[which];
    }
    return sum;
}

/* Lines have a direction only when data is sent in both. */
static void print_direction(const struct way *way)
{
    if (way->bulk->ways[SENDER].count && way->bulk->ways[RECEIVER].count)
        out_format(way->role == SENDER ? "sent     " : "received ");
}

static void print_interval(const struct way *way, const struct interval *interval)
{
    uint64_t bytes = 0;
    for (int i = 0; i < way->count; i++)
        bytes += interval->bytes[i];
    print_direction(way);
    out_format("%8.2f -%8.2f s", interval->start_s, interval->start_s + interval->length_s);
    print_amount(bytes, interval->length_s);
    const int64_t retransmits = sum_of(way, interval, TCP_RETRANSMITS);
    const int64_t rtt_us = sum_of(way, interval, TCP_RTT_US);
    if (way->role == SENDER && retransmits != UNKNOWN && rtt_us != UNKNOWN)
        out_format("  %lld retransmits, RTT %.2f ms", (long long)retransmits,
                   (double)rtt_us / 1000 / way->count);
    if (interval->warmup)
        out_format("  warm-up");
    out_line();
}

static void print_bulk_connected(const struct bulk *bulk)
{
    const struct handshake *handshake = &bulk->params.link.handshake;
    const int connections = bulk->params.link.connections;
    out_format("connected, %d flow%s%s", connections, connections == 1 ? "" : "s",
               handshake->direction == BOTH ? " each way" : "");
    if (handshake->bytes)
        out_format(", %llu bytes each", (unsigned long long)handshake->bytes);
    else
        out_format(", %g s", bulk->params.duration_s);
    if (bulk->params.warmup_s > 0)
        out_format(" after %g s of warm-up", bulk->params.warmup_s);
    out_line();
}

const struct bulk_view bulk_line_view = {print_bulk_connected, print_interval};

static void print_flow(const struct flow *flow)
{
    const double length_s = ns_seconds(flow->end_ns - flow->start_ns);
    print_direction(flow->way);
    out_format("flow %3d            ", flow->index);
    print_amount(flow->bytes, length_s);
    const int64_t retransmits = flow->tcp.value[TCP_RETRANSMITS];
    if (flow->way->role == SENDER && retransmits != UNKNOWN)
        out_format("  %lld retransmits, %s", (long long)retransmits, flow->tcp.congestion_control);
    else if (flow->way->role == SENDER)
        out_format("  %s", flow->tcp.congestion_control);
    if (flow->way->bulk->params.link.options.mptcp)
        out_format(flow->mptcp == 1   ? ", MPTCP"
                   : flow->mptcp == 0 ? ", fell back from MPTCP to TCP"
                                      : ", MPTCP unless it fell back");
    out_line();
}

static void print_common(const struct way *way)
{
    uint64_t bytes = 0;
    if (!way->common_from)
        return;
    const double length_s = ns_seconds(way->first_ended.at_ns - way->common_from->at_ns);
    for (int i = 0; i < way->count; i++)
        bytes += way->first_ended.bytes[i] - way->common_from->bytes[i];
    out_format("aggregate BTC        ");
    print_amount(bytes, length_s);
    out_format("  in the %.2f s common to all flows", length_s);
    out_line();
}

static void print_way(const struct way *way)
{
    uint64_t bytes = 0;
    const double elapsed_s = way->bulk->threads.elapsed_s;
    if (way->count == 0)
        return;
    for (int i = 0; i < way->count; i++) {
        bytes += way->flows[i].bytes;
        print_flow(&way->flows[i]);
    }
    print_direction(way);
    out_format("all, %8.2f s     ", elapsed_s);
    print_amount(bytes, elapsed_s);
    out_line();
    print_common(way);
}

void bulk_print_result(const struct bulk *bulk)
{
    const struct cpu_time *cpu = &bulk->threads.process;
    print_way(&bulk->ways[SENDER]);
    print_way(&bulk->ways[RECEIVER]);
    out_format("CPU %.1f %%", (cpu->user_s + cpu->system_s) / bulk->threads.elapsed_s * 100);
    out_line();
}

static void print_listening(const struct job *job, const char *address, int port)
{
    (void)job;
    out_format("waiting on %s port %d", address, port);
    out_line();
}

static void print_connected(const struct job *job)
{
    (void)job;
    out_format("connected");
    out_line();
}

static void print_failed(const struct job *job)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", job->failure.kind, job->failure.message);
}

const struct report line_report = {print_listening, print_connected, print_failed};
