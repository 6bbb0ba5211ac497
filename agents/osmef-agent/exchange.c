#include "exchange.h"

#include "clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* How long after its end the last exchange may take. */
#define DRAIN_S 60.0

static struct exchange_params params; /* of the job that was read last */
static struct exchange exchange;

static bool read_sizes(const struct json_object *command, char *problem)
{
    static const char *const keys[] = {"request_size", "response_size"};
    uint64_t *const sizes[] = {&params.request_size, &params.response_size};
    for (int i = 0; i < 2; i++) {
        if (!field_size_or(command, keys[i], 1, sizes[i], problem))
            return false;
        if (*sizes[i] < 1 || *sizes[i] > 1 << 30) {
            snprintf(problem, PROBLEM_SIZE, "%s must be a number from 1 to %d", keys[i], 1 << 30);
            return false;
        }
    }
    return true;
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    params = (struct exchange_params){.link.opening.kind = OPENING_EXCHANGE};
    if (!link_read(command, &params.link, problem) || !read_sizes(command, problem) ||
        !field_number(command, "duration_s", SHORTEST_S, LONGEST_S, &params.duration_s, problem) ||
        !field_number_or(command, "interval_s", SHORTEST_S, LONGEST_S, 0, &params.interval_s,
                         problem) ||
        !field_number_or(command, "warmup_s", 0, LONGEST_S, 0, &params.warmup_s, problem) ||
        !field_number_or(command, "rate_per_s", 1e-3, 1e6, 0, &params.rate_per_s, problem) ||
        !field_number_or(command, "gap_s", 0, 1000, 0, &params.gap_s, problem))
        return false;
    if (params.rate_per_s > 0 && params.gap_s > 0)
        snprintf(problem, PROBLEM_SIZE, "give rate_per_s or gap_s, not both");
    return params.rate_per_s == 0 || params.gap_s == 0;
}

/* Pages that are touched now cost no time in the exchanges. */
static bool prepare(struct crew *crew)
{
    exchange_intervals_begin();
    if (crew->params->listens)
        return true;
    const size_t size = sizeof *exchange.askers * (size_t)crew->count;
    void *const memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return job_fail(crew->job, "resource", -1, "no memory for %d flows: %s", crew->count,
                        strerror(errno));
    exchange.askers = memory;
    for (int i = 0; i < crew->count; i++)
        pthread_mutex_init(&exchange.askers[i].mutex, NULL);
    return true;
}

static int64_t tick(struct crew *crew)
{
    (void)crew;
    return exchange_intervals_tick(&exchange);
}

static const struct trade trade = {prepare, exchange_work, tick};

static void release_memory(void)
{
    if (exchange.askers)
        munmap(exchange.askers, sizeof *exchange.askers * (size_t)exchange.crew.count);
    exchange.askers = NULL;
}

static bool run(struct job *job)
{
    struct crew *crew = &exchange.crew;
    const double pause_s = params.rate_per_s > 0 ? 1 / params.rate_per_s : params.gap_s;
    release_memory();
    exchange.params = params;
    exchange.params.link.opening.duration_ms = (uint32_t)lround(params.duration_s * 1000);
    exchange.params.link.opening.warmup_ms = (uint32_t)lround(params.warmup_s * 1000);
    for (int i = 0; i < MAX_FLOWS; i++)
        exchange.answers[i] = 0;
    crew->trade = &trade;
    crew->patience_s = params.link.stall_timeout_s + pause_s;
    crew->longest_s = params.warmup_s + params.duration_s + DRAIN_S + pause_s;
    const bool ok = crew_run(crew, job, &exchange.params.link);
    if (ok)
        exchange_intervals_end(&exchange);
    else
        release_memory();
    return ok;
}

static void tell_result(const struct job *job)
{
    (void)job;
    exchange_tell_result(&exchange);
    release_memory();
}

const struct kind exchange_kind = {"exchange", false, read_params, run, tell_result, false};
