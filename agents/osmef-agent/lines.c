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

static int64_t sum_of(const struct job *job, const struct interval *interval, enum tcp_value which)
{
    int64_t sum = 0;
    for (int i = 0; i < job->params.flows; i++)
        sum += interval->tcp[i].value[which] == UNKNOWN ? 0 : interval->tcp[i].value[which];
    return sum;
}

static void tell_listening(const struct job *job)
{
    out_format("waiting for a sender on %s port %d", job->params.host, job->listening_port);
    out_line();
}

static void tell_connected(const struct job *job)
{
    const int flows = job->params.flows;
    out_format("connected, %d flow%s, %g s", flows, flows == 1 ? "" : "s", job->params.duration_s);
    out_line();
}

static void tell_interval(const struct job *job, const struct interval *interval)
{
    uint64_t bytes = 0;
    for (int i = 0; i < job->params.flows; i++)
        bytes += interval->bytes[i];
    out_format("%8.2f -%8.2f s", interval->start_s, interval->start_s + interval->length_s);
    tell_amount(bytes, interval->length_s);
    if (job->params.role == SENDER)
        out_format("  %lld retransmits, RTT %.2f ms",
                   (long long)sum_of(job, interval, TCP_RETRANSMITS),
                   (double)sum_of(job, interval, TCP_RTT_US) / 1000 / job->params.flows);
    out_line();
}

static void tell_flow(const struct job *job, const struct flow *flow)
{
    const double length_s = (double)(flow->end_ns - flow->start_ns) / 1e9;
    out_format("flow %3d            ", flow->index);
    tell_amount(flow->bytes, length_s);
    if (job->params.role == SENDER)
        out_format("  %lld retransmits, %s", (long long)flow->tcp.value[TCP_RETRANSMITS],
                   flow->tcp.congestion_control);
    out_line();
}

static void tell_result(const struct job *job)
{
    uint64_t bytes = 0;
    uint64_t common = 0;
    for (int i = 0; i < job->params.flows; i++) {
        bytes += job->flows[i].bytes;
        common += job->first_ended.bytes[i] - job->all_begun.bytes[i];
        tell_flow(job, &job->flows[i]);
    }
    out_format("all, %8.2f s     ", job->outcome.elapsed_s);
    tell_amount(bytes, job->outcome.elapsed_s);
    const struct cpu_time *cpu = &job->outcome.process;
    out_format("  CPU %.1f %%", (cpu->user_s + cpu->system_s) / job->outcome.elapsed_s * 100);
    out_line();
    if (job->params.role == SENDER)
        return;
    out_format("aggregate BTC        ");
    tell_amount(common, job->outcome.common_length_s);
    out_format("  in the %.2f s common to all flows", job->outcome.common_length_s);
    out_line();
}

static void tell_failed(const struct job *job)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", job->failure.kind, job->failure.message);
}

const struct report line_report = {tell_listening, tell_connected, tell_interval, tell_result,
                                   tell_failed};
