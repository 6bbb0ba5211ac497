#include "lines.h"

#include "out.h"

#include <stdio.h>

#define PROGRAM "osmef-agent"

/* Three digits and a decimal prefix: 9.41 Gbit/s. */
static void tell_scaled(double value, const char *unit)
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

static void tell_amount(uint64_t bytes, double length_s)
{
    out_format("  ");
    tell_scaled((double)bytes, "B");
    out_format("  ");
    tell_scaled(length_s > 0 ? (double)bytes * 8 / length_s : 0, "bit/s");
}

static int64_t sum_of(const struct bulk *bulk, const struct interval *interval,
                      enum tcp_value which)
{
    int64_t sum = 0;
    for (int i = 0; i < bulk->count; i++)
        sum += interval->tcp[i].value[which] == UNKNOWN ? 0 : interval->tcp[i].value[which];
    return sum;
}

static void tell_interval(const struct bulk *bulk, const struct interval *interval)
{
    uint64_t bytes = 0;
    for (int i = 0; i < bulk->count; i++)
        bytes += interval->bytes[i];
    out_format("%8.2f -%8.2f s", interval->start_s, interval->start_s + interval->length_s);
    tell_amount(bytes, interval->length_s);
    if (bulk->role == SENDER)
        out_format("  %lld retransmits, RTT %.2f ms",
                   (long long)sum_of(bulk, interval, TCP_RETRANSMITS),
                   (double)sum_of(bulk, interval, TCP_RTT_US) / 1000 / bulk->count);
    out_line();
}

static void tell_connected(const struct bulk *bulk)
{
    out_format("connected, %d flow%s, %g s", bulk->count, bulk->count == 1 ? "" : "s",
               bulk->params.duration_s);
    out_line();
}

const struct bulk_view bulk_line_view = {tell_connected, tell_interval};

static void tell_flow(const struct bulk *bulk, const struct flow *flow)
{
    const double length_s = (double)(flow->end_ns - flow->start_ns) / 1e9;
    out_format("flow %3d            ", flow->index);
    tell_amount(flow->bytes, length_s);
    if (bulk->role == SENDER)
        out_format("  %lld retransmits, %s", (long long)flow->tcp.value[TCP_RETRANSMITS],
                   flow->tcp.congestion_control);
    out_line();
}

void bulk_print_result(const struct bulk *bulk)
{
    uint64_t bytes = 0;
    uint64_t common = 0;
    for (int i = 0; i < bulk->count; i++) {
        bytes += bulk->flows[i].bytes;
        common += bulk->first_ended.bytes[i] - bulk->all_begun.bytes[i];
        tell_flow(bulk, &bulk->flows[i]);
    }
    out_format("all, %8.2f s     ", bulk->outcome.elapsed_s);
    tell_amount(bytes, bulk->outcome.elapsed_s);
    const struct cpu_time *cpu = &bulk->outcome.process;
    out_format("  CPU %.1f %%", (cpu->user_s + cpu->system_s) / bulk->outcome.elapsed_s * 100);
    out_line();
    if (bulk->role == SENDER)
        return;
    out_format("aggregate BTC        ");
    tell_amount(common, bulk->outcome.common_length_s);
    out_format("  in the %.2f s common to all flows", bulk->outcome.common_length_s);
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
