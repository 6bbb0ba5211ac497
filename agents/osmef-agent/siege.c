#include "siege.h"

#include "clock.h"
#include "events.h"
#include "out.h"
#include "tcpinfo.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_PATH "/mping/{size}"
#define BATCH 1000 /* requests in one event */

static struct siege_params params; /* of the job that was read last */

/* Rejects members that would have no effect. */
static bool only_sizes(const struct json_object *command, char *problem)
{
    static const char *const drawn[] = {"size_min", "size_max", "coverage", "replacement"};
    for (size_t i = 0; params.sizes[0] && i < sizeof drawn / sizeof *drawn; i++)
        if (json_find(command, drawn[i])) {
            snprintf(problem, PROBLEM_SIZE, "with sizes, %s has no effect", drawn[i]);
            return false;
        }
    return true;
}

/* It becomes a part of requests. */
static bool is_authority(char problem[PROBLEM_SIZE])
{
    for (const char *at = params.authority; *at; at++)
        if (*at <= ' ' || *at > '~') {
            snprintf(problem, PROBLEM_SIZE, "authority has what no Host field can have");
            return false;
        }
    return true;
}

static const struct field fields[] = {
#define FIELDS_OF struct siege_params
    TEXT("host", host),
    WHOLE("port", port, 1, 65535, NEEDED),
    TEXT_OR("authority", authority, ""),
    TEXT_OR("path", path, DEFAULT_PATH),
    WHOLE("connections", connections, 1, SIEGE_CONNECTIONS, 1),
    WHOLE("threads", threads, 1, MAX_LOOPS, 0),
    FLAG("keep_alive", keep_alive, true),
    NUMBER("rate_per_s", rate_per_s, 0, 1e7, 0),
    NUMBER("timeout_s", timeout_s, SHORTEST_S, LONGEST_S, 60),
    NUMBER("arm_timeout_s", arm_timeout_s, SHORTEST_S, LONGEST_S, 15),
    TEXT_OR("sizes", sizes, ""),
    WHOLE("size_min", size_min, 0, 1 << 30, 1),
    WHOLE("size_max", size_max, 0, 1 << 30, 500000),
    NUMBER("coverage", coverage, 0, 1, 0.05),
    FLAG("replacement", replacement, true),
    WHOLE("repetitions", repetitions, 1, SIEGE_REQUESTS, 1),
    WHOLE("seed", seed, 0, INT32_MAX, 0),
    FIELDS_END,
#undef FIELDS_OF
};

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    if (!fields_read(command, fields, &params, problem) || !only_sizes(command, problem) ||
        !is_authority(problem))
        return false;
    if (!params.threads)
        params.threads = loop_default_count();
    return siege_check(&params, problem);
}

/* Waits for the start. */
static bool wait_for_start(struct job *job)
{
    struct pollfd fds[1];
    struct control *control = job->control;
    const int64_t deadline_ns = now_ns() + seconds_ns(params.arm_timeout_s);
    while (!control->start || now_ns() < control->start_ns) {
        if (!control->start && now_ns() >= deadline_ns)
            return job_fail(job, "arm-timeout", -1, "the siege was not started within %g s",
                            params.arm_timeout_s);
        control_wait(control, fds, 1, control->start ? control->start_ns : deadline_ns);
        if (job_aborted(job))
            return false;
    }
    return true;
}

static bool run(struct job *job)
{
    memset(&siege, 0, sizeof siege);
    siege.job = job;
    siege.params = params;
    siege.asks_ping = strncmp(params.path, "/mping/", 7) == 0;
    bool ok = siege_plan() && siege_connect();
    if (ok)
        job->report->connected(job);
    ok = ok && wait_for_start(job) && siege_run();
    siege_disconnect();
    if (ok && job->report == &event_report)
        ok = siege_write_requests();
    if (!ok)
        siege_forget();
    return ok;
}

enum column { SIZE, START, DURATION, RELAY, CODE, LENGTH, RETRIES, ERROR, COLUMNS };
static const char *const names[COLUMNS] = {"size", "start_us", "duration_us", "relay_us",
                                           "code", "length",   "retries",     "error"};

static int64_t value_of(const struct siege_request *asked, enum column column)
{
    const int64_t values[COLUMNS] = {asked->size,     asked->start_ns, asked->duration_ns,
                                     asked->relay_ns, asked->code,     asked->length,
                                     asked->retries,  asked->error};
    return values[column];
}

static void write_column(int64_t first, int64_t end, enum column column)
{
    const char *separator = "";
    out_format(",\"%s\":[", names[column]);
    for (int64_t i = first; i < end; i++) {
        const int64_t value = value_of(&siege.requests[i], column);
        if (value != UNKNOWN && (column == START || column == DURATION || column == RELAY))
            out_format("%s%lld.%03d", separator, (long long)(value / 1000), (int)(value % 1000));
        else
            write_value(separator, value);
        separator = ",";
    }
    out_format("]");
}

bool siege_write_requests(void)
{
    struct pollfd fds[1];
    for (int64_t first = 0; first < siege.count; first += BATCH) {
        const int64_t end = first + BATCH < siege.count ? first + BATCH : siege.count;
        event_begin(siege.job, "requests");
        out_format(",\"first\":%lld", (long long)first);
        for (int column = 0; column < COLUMNS; column++)
            write_column(first, end, column);
        event_end();
        control_wait(siege.job->control, fds, 1, 0);
        if (job_aborted(siege.job))
            return false;
    }
    return true;
}

/* Sums over the records. */
struct sums {
    int64_t errors[REQUEST_ERRORS];
    int64_t failed;
    int64_t retries;
    int64_t length;
    double elapsed_s;
};

static struct sums sum_up(void)
{
    struct sums sums = {.elapsed_s = ns_seconds(siege.end_ns - siege.start_ns)};
    for (int64_t i = 0; i < siege.count; i++) {
        const struct siege_request *asked = &siege.requests[i];
        sums.errors[asked->error]++;
        sums.failed += asked->error != REQUEST_OK;
        sums.retries += asked->retries == UNKNOWN ? 0 : asked->retries;
        sums.length += asked->error == REQUEST_OK ? asked->length : 0;
    }
    return sums;
}

static const double quantiles[] = {0, 0.5, 0.9, 0.99, 0.999, 1};
static const char *const quantile_names[] = {"min", "p50", "p90", "p99", "p999", "max"};
#define QUANTILES (sizeof quantiles / sizeof *quantiles)

static void write_quantiles(const struct histogram *h)
{
    out_format(",\"duration_us\":{");
    for (size_t i = 0; i < QUANTILES; i++) {
        const int64_t ns = i ? histogram_quantile(h, quantiles[i]) : h->min_ns;
        out_format("%s\"%s\":", i ? "," : "", quantile_names[i]);
        if (h->count)
            out_format("%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000));
        else
            out_format("null");
    }
    out_format("},");
}

void siege_write_result(void)
{
    const struct sums sums = sum_up();
    out_format(",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f,\"requests\":%lld,\"failed\":%lld",
               (long long)siege.start_realtime_ns, sums.elapsed_s, (long long)siege.count,
               (long long)sums.failed);
    out_format(",\"errors\":{\"connect\":%lld,\"timeout\":%lld,\"closed\":%lld,\"protocol\":%lld,"
               "\"status\":%lld}",
               (long long)sums.errors[REQUEST_CONNECT], (long long)sums.errors[REQUEST_TIMEOUT],
               (long long)sums.errors[REQUEST_CLOSED], (long long)sums.errors[REQUEST_PROTOCOL],
               (long long)sums.errors[REQUEST_STATUS]);
    out_format(",\"requests_per_s\":%.3f,\"length\":%lld,\"received_bytes\":%llu,"
               "\"connections\":%llu,\"retries\":",
               (double)siege.counts.answered.count / sums.elapsed_s, (long long)sums.length,
               (unsigned long long)siege.counts.bytes,
               (unsigned long long)siege.counts.connections);
    write_value("", siege.asks_ping ? sums.retries : UNKNOWN);
    write_quantiles(&siege.counts.answered);
    histogram_write(&siege.counts.answered);
    write_process(&siege.process);
    write_endpoint(&siege.endpoint);
}

void siege_print_result(void)
{
    const struct sums sums = sum_up();
    const struct histogram *h = &siege.counts.answered;
    out_format("%lld requests (%lld failed) in %.2f s, %.0f requests/s, %.3f MB/s\n",
               (long long)siege.count, (long long)sums.failed, sums.elapsed_s,
               (double)h->count / sums.elapsed_s, (double)sums.length / 1e6 / sums.elapsed_s);
    if (sums.failed)
        out_format("failed: %lld no connection, %lld timed out, %lld closed, %lld not understood, "
                   "%lld not 200\n",
                   (long long)sums.errors[REQUEST_CONNECT], (long long)sums.errors[REQUEST_TIMEOUT],
                   (long long)sums.errors[REQUEST_CLOSED], (long long)sums.errors[REQUEST_PROTOCOL],
                   (long long)sums.errors[REQUEST_STATUS]);
    out_format("duration, ms:");
    for (size_t i = 0; h->count && i < QUANTILES; i++)
        out_format("  %s %.3f", quantile_names[i],
                   (double)(i ? histogram_quantile(h, quantiles[i]) : h->min_ns) / 1e6);
    out_line();
    if (siege.asks_ping) {
        out_format("retries of ping: %lld", (long long)sums.retries);
        out_line();
    }
}

static void write_result(const struct job *job)
{
    (void)job;
    siege_write_result();
    siege_forget();
}

const struct kind siege_kind = {"siege", false, read_params, run, write_result, false};
