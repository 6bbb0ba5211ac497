#include "serving.h"

#include "resolve.h"

#include "clock.h"
#include "cpu.h"
#include "events.h"
#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* A signal interrupts the wait, unless it comes just before it. */
#define CHECK_NS NS_PER_S

static struct {
    int64_t start_realtime_ns;
    double elapsed_s;
    struct server_counts counts;
    struct cpu_time process;
    struct endpoint_time endpoint;
} outcome;

static const struct field port_fields[] = {
#define FIELDS_OF struct serving
    TEXT("bind", bind),
    WHOLE("port", port, 0, 65535, NEEDED),
    FIELDS_END,
};
static const struct field listen_port_fields[] = {
    TEXT("bind", bind),
    WHOLE("listen_port", port, 0, 65535, NEEDED),
    FIELDS_END,
};
static const struct field thread_fields[] = {
    WHOLE("threads", threads, 1, MAX_LOOPS, 0),
    FIELDS_END,
#undef FIELDS_OF
};

bool serving_read(const struct json_object *command, bool relays, struct serving *serving,
                  char problem[PROBLEM_SIZE])
{
    if (!fields_read(command, relays ? listen_port_fields : port_fields, serving, problem) ||
        !fields_read(command, thread_fields, serving, problem))
        return false;
    if (!serving->threads)
        serving->threads = loop_default_count();
    return true;
}

static bool listen_at(struct job *job, const struct serving *serving)
{
    struct address_list found;
    if (!resolve(serving->bind, serving->port, false, &found))
        return job_fail(job, "bind", -1, "%s is no address; %s", serving->bind,
                        resolve_cure(false));
    const int got = server_listen(&found.at[0].sockaddr.any, found.at[0].size);
    if (got < 0)
        return job_fail(job, "bind", -1, "can't listen on %s port %d: %s", serving->bind,
                        serving->port, strerror(errno));
    job->report->listening(job, serving->bind, got);
    return true;
}

static bool wait_for_end(struct job *job)
{
    struct pollfd fds[1];
    const int64_t start_ns = now_ns();
    const struct cpu_time cpu = cpu_time(RUSAGE_SELF);
    const struct endpoint_time endpoint = endpoint_time();
    outcome.start_realtime_ns = clock_ns(CLOCK_REALTIME);
    while (!job->control->stop && !job_aborted(job))
        control_wait(job->control, fds, 1, now_ns() + CHECK_NS);
    outcome.elapsed_s = ns_seconds(now_ns() - start_ns);
    outcome.process = cpu_since(cpu, RUSAGE_SELF);
    outcome.endpoint = endpoint_since(endpoint);
    return !job->failure.kind;
}

bool serving_run(struct job *job, const struct serving *serving, const struct service *service)
{
    bool ok =
        server_open(service, serving->threads) ||
        job_fail(job, "resource", -1, "no threads or memory for the server: %s", strerror(errno));
    ok = ok && listen_at(job, serving);
    ok = ok && (server_start() ||
                job_fail(job, "resource", -1, "no threads for the server: %s", strerror(errno)));
    ok = ok && wait_for_end(job);
    server_stop();
    outcome.counts = server_total();
    return ok;
}

void serving_write(void)
{
    const struct server_counts *counts = &outcome.counts;
    out_format(",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f,\"requests\":%llu,\"bad\":%llu,"
               "\"connections\":%llu,\"refused\":%llu,\"late\":%llu,\"bytes\":%llu",
               (long long)outcome.start_realtime_ns, outcome.elapsed_s,
               (unsigned long long)counts->requests, (unsigned long long)counts->bad,
               (unsigned long long)counts->connections, (unsigned long long)counts->refused,
               (unsigned long long)counts->late, (unsigned long long)counts->bytes);
    write_process(&outcome.process);
    write_endpoint(&outcome.endpoint);
}

void serving_print(void)
{
    const struct server_counts *counts = &outcome.counts;
    out_format("%llu requests (%llu bad) on %llu connections in %.2f s, %llu bytes sent",
               (unsigned long long)counts->requests, (unsigned long long)counts->bad,
               (unsigned long long)counts->connections, outcome.elapsed_s,
               (unsigned long long)counts->bytes);
    out_line();
}
