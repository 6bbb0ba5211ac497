#include "events.h"

#include "cpu.h"
#include "kind.h"
#include "out.h"
#include "tcpinfo.h"

void event_begin(const struct job *job, const char *event)
{
    out_format("{\"event\":\"%s\",\"id\":\"%s\"", event, job->id);
}

void event_end(void)
{
    out_format("}");
    out_line();
}

void write_value(const char *separator, int64_t value)
{
    if (value == UNKNOWN)
        out_format("%snull", separator);
    else
        out_format("%s%lld", separator, (long long)value);
}

void write_tcp(const struct tcp_state *tcp)
{
    out_format(",\"tcp\":{\"congestion_control\":");
    if (tcp->congestion_control[0])
        out_string(tcp->congestion_control);
    else
        out_format("null");
    for (int i = 0; i < TCP_VALUES; i++) {
        out_format(",\"%s\":", tcp_names[i]);
        write_value("", tcp->value[i]);
    }
    write_value(",\"send_buffer\":", tcp->send_buffer);
    write_value(",\"receive_buffer\":", tcp->receive_buffer);
    out_format("}");
}

void write_cpu_time(const char *separator, const struct cpu_time *cpu)
{
    if (cpu)
        out_format("%s\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f", separator, cpu->user_s,
                   cpu->system_s);
    else
        out_format("%s\"cpu_user_s\":null,\"cpu_system_s\":null", separator);
    if (cpu && cpu->wait_s >= 0)
        out_format(",\"cpu_wait_s\":%.6f", cpu->wait_s);
    else
        out_format(",\"cpu_wait_s\":null");
}

void write_cpu(const struct cpu_time *cpu)
{
    write_cpu_time(",", cpu);
    write_value(",\"last_cpu\":", cpu->last_cpu);
}

void write_process(const struct cpu_time *process)
{
    out_format(",\"process\":{\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,\"max_rss_kb\":%lld}",
               process->user_s, process->system_s, (long long)cpu_max_rss_kb());
}

/* Writes for each CPU the sum of the columns `first` to `last` of /proc/stat. */
static void write_cpus(const struct endpoint_time *endpoint, const char *name, int first, int last)
{
    out_format(",\"%s\":[", name);
    for (int i = 0; i < endpoint->cpus && i < MAX_LISTED_CPUS; i++) {
        double sum_s = 0;
        for (int column = first; column <= last; column++)
            sum_s += endpoint->each[i][column];
        out_format("%s%.2f", i ? "," : "", sum_s);
    }
    out_format("]");
}

static void write_each_cpu(const struct endpoint_time *endpoint)
{
    out_format(",\"each\":{\"cpu\":[");
    for (int i = 0; i < endpoint->cpus && i < MAX_LISTED_CPUS; i++)
        out_format("%s%d", i ? "," : "", endpoint->number[i]);
    out_format("]");
    write_cpus(endpoint, "idle_s", STAT_IDLE, STAT_IOWAIT);
    write_cpus(endpoint, "interrupts_s", STAT_IRQ, STAT_SOFTIRQ);
    write_cpus(endpoint, "steal_s", STAT_STEAL, STAT_STEAL);
    out_format("}");
}

static void write_quota(const struct quota *quota)
{
    if (quota)
        out_format(",\"quota\":{\"cpus\":%.6g,\"periods\":%lld,\"throttled\":%lld,"
                   "\"throttled_s\":%.6f}",
                   quota->cpus, (long long)quota->periods, (long long)quota->throttled,
                   (double)quota->throttled_us / 1e6);
    else
        out_format(",\"quota\":null");
}

void write_endpoint(const struct endpoint_time *endpoint)
{
    out_format(",\"endpoint\":{\"cpus\":%d,\"elapsed_s\":%.9f", endpoint->cpus,
               (double)endpoint->at_ns / 1e9);
    for (int i = 0; i < STAT_COLUMNS; i++) {
        if (i < endpoint->columns)
            out_format(",\"%s_s\":%.2f", stat_names[i], endpoint->seconds[i]);
        else
            out_format(",\"%s_s\":null", stat_names[i]);
    }
    write_each_cpu(endpoint);
    write_quota(quotas_tightest(&endpoint->quotas));
    out_format("}");
}

void event_result(const struct job *job)
{
    event_begin(job, "result");
    out_format(",\"job\":\"%s\"", job->kind->name);
    job->kind->result(job);
    event_end();
}

static void write_listening(const struct job *job, const char *address, int port)
{
    (void)address;
    event_begin(job, "listening");
    out_format(",\"port\":%d", port);
    event_end();
}

static void write_connected(const struct job *job)
{
    event_begin(job, "connected");
    event_end();
}

static void write_failed(const struct job *job)
{
    const struct failure *failure = &job->failure;
    event_begin(job, "error");
    out_format(",\"kind\":\"%s\",\"flow\":", failure->kind);
    write_value("", failure->flow);
    out_format(",\"message\":");
    out_string(failure->message);
    event_end();
}

const struct report event_report = {write_listening, write_connected, write_failed};
