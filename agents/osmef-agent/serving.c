#include "serving.h"

#include "clock.h"
#include "cpu.h"
#include "events.h"
#include "out.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* A signal by hand interrupts a wait, unless it comes just before it. */
#define LOOK_NS NS_PER_S

static struct {
    int64_t start_realtime_ns;
    double elapsed_s;
    struct server_counts counts;
    struct cpu_time process;
    struct endpoint_time endpoint;
} outcome;

bool serving_read(const struct json_object *command, const char *port_key, struct serving *serving,
                  char problem[PROBLEM_SIZE])
{
    return field_text(command, "bind", serving->bind, sizeof serving->bind, problem) &&
           field_whole(command, port_key, 0, 65535, &serving->port, problem) &&
           field_whole_or(command, "threads", 1, MAX_LOOPS, loop_default_count(),
                          &serving->threads, problem);
}

static bool listen_at(struct job *job, const struct serving *serving)
{
    char port[8];
    snprintf(port, sizeof port, "%d", serving->port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found;
    const int problem = getaddrinfo(serving->bind, port, &hints, &found);
    if (problem)
        return job_fail(job, "bind", -1, "%s: %s; give a numeric address", serving->bind,
                        gai_strerror(problem));
    const int got = server_listen(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
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
        control_wait(job->control, fds, 1, now_ns() + LOOK_NS);
    outcome.elapsed_s = ns_seconds(now_ns() - start_ns);
    outcome.process = cpu_since(cpu, RUSAGE_SELF);
    outcome.endpoint = endpoint_since(endpoint);
    return !job->failure.kind;
}

bool serving_run(struct job *job, const struct serving *serving, const struct service *service)
{
    bool ok = server_open(service, serving->threads) ||
              job_fail(job, "resource", -1, "no threads or memory for the server: %s",
                       strerror(errno));
    ok = ok && listen_at(job, serving);
    ok = ok && (server_start() || job_fail(job, "resource", -1, "no threads for the server: %s",
                                           strerror(errno)));
    ok = ok && wait_for_end(job);
    server_stop();
    outcome.counts = server_total();
    return ok;
}

void serving_tell(void)
{
    const struct server_counts *counts = &outcome.counts;
    out_format(",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f,\"requests\":%llu,\"bad\":%llu,"
               "\"connections\":%llu,\"refused\":%llu,\"late\":%llu,\"bytes\":%llu",
               (long long)outcome.start_realtime_ns, outcome.elapsed_s,
               (unsigned long long)counts->requests, (unsigned long long)counts->bad,
               (unsigned long long)counts->connections, (unsigned long long)counts->refused,
               (unsigned long long)counts->late, (unsigned long long)counts->bytes);
    tell_process(&outcome.process);
    tell_endpoint(&outcome.endpoint);
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
