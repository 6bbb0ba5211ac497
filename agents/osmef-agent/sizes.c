#include "sizes.h"

#include "clock.h"
#include "events.h"
#include "out.h"
#include "pages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LARGEST (1 << 30)
#define MAX_MEMORY ((uint64_t)2 << 30)
/* How long the current batch may take after the end of the duration. */
#define DRAIN_S 60.0
#define PAGE 4096

static struct sizes_params params; /* of the job that was read last */
static struct sizes sizes;
static int reported; /* number of points */

/* Each flow has a receive buffer; the send buffer is shared unless messages are checked. */
static uint64_t memory_size(const struct sizes_params *p)
{
    const uint64_t buffer = (p->max_size + PAGE - 1) / PAGE * PAGE;
    const uint64_t flows = (uint64_t)p->link.handshake.flows;
    return buffer * (p->check ? 2 * flows : flows + 1);
}

static bool is_possible(char *problem)
{
    if (params.min_size < 1 || params.max_size < params.min_size || params.max_size > LARGEST) {
        snprintf(problem, PROBLEM_SIZE, "min_size and max_size must be from 1 to %d, in this order",
                 LARGEST);
        return false;
    }
    if (memory_size(&params) > MAX_MEMORY) {
        snprintf(problem, PROBLEM_SIZE,
                 "the buffers would take more than 2 GiB; use fewer connections or a smaller max_size");
        return false;
    }
    return true;
}

static const char *const modes[] = {"pingpong", "stream", "both", NULL};
static const struct field fields[] = {
#define FIELDS_OF struct sizes_params
    SIZE("min_size", min_size, 0, LARGEST_SIZE, 1),
    SIZE("max_size", max_size, 0, LARGEST_SIZE, 8 << 20),
    SIZE("perturbation", perturbation, 0, LARGEST_SIZE, 3),
    WORD("mode", mode, modes, PINGPONG),
    FLAG("check", check, false),
    NUMBER("point_s", point_s, 0.001, 1000, 0.5),
    WHOLE("trials", trials, 1, MAX_TRIALS, 3),
    WHOLE("min_repetitions", least, 1, 1000000, 3),
    NUMBER("duration_s", duration_s, SHORTEST_S, LONGEST_S, NEEDED),
    FIELDS_END,
#undef FIELDS_OF
};

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    params = (struct sizes_params){.link.handshake.kind = HANDSHAKE_SIZES};
    return link_read(command, &params.link, problem) &&
           fields_read(command, fields, &params, problem) && is_possible(problem);
}

static size_t spreads_size(void)
{
    return sizeof *sizes.spreads * (size_t)sizes.planned * (size_t)sizes.threads.count;
}

static void share_memory(int flows)
{
    const size_t buffer = (sizes.params.max_size + PAGE - 1) / PAGE * PAGE;
    for (int i = 0; i < flows; i++) {
        const size_t mine = (size_t)i;
        sizes.movers[i].in = sizes.memory + mine * buffer;
        sizes.movers[i].out =
            sizes.memory + ((size_t)flows + (sizes.params.check ? mine : 0)) * buffer;
    }
}

/* Pages touched here cost no time in the sweep. */
static bool prepare(struct flow_threads *threads)
{
    sizes.memory_size = memory_size(&sizes.params);
    sizes.memory = pages_map(sizes.memory_size, MAP_POPULATE);
    sizes.spreads = pages_map(spreads_size(), MAP_POPULATE);
    if (!sizes.memory || !sizes.spreads)
        return job_fail(threads->job, "resource", -1,
                        "no memory for messages of %llu bytes on %d flows: %s",
                        (unsigned long long)sizes.params.max_size, threads->count, strerror(errno));
    share_memory(threads->count);
    threads_set_messages(threads);
    return true;
}

/* In a ping-pong a message takes half the time of a repetition. */
static double message_s(double repetition_s)
{
    return sizes.params.mode == PINGPONG ? repetition_s / 2 : repetition_s;
}

static void write_times(int point, const char *name, size_t offset)
{
    const size_t flows = (size_t)sizes.threads.count;
    out_format(",\"%s\":", name);
    for (size_t i = 0; i < flows; i++) {
        const char *spread = (const char *)&sizes.spreads[(size_t)point * flows + i];
        const double repetition_s = *(const double *)(const void *)(spread + offset);
        out_format("%s%.5f", i ? "," : "[", 1e6 * message_s(repetition_s));
    }
    out_format("]");
}

static void write_point(int number)
{
    const struct point *point = &sizes.points[number];
    event_begin(sizes.threads.job, "point");
    out_format(",\"size\":%llu,\"repetitions\":%llu,\"trials\":%d", (unsigned long long)point->size,
               (unsigned long long)point->repetitions, point->trials);
    write_times(number, "time_min_us", offsetof(struct spread, min_s));
    write_times(number, "time_median_us", offsetof(struct spread, median_s));
    write_times(number, "time_max_us", offsetof(struct spread, max_s));
    out_format(",\"time_slowest_us\":%.5f", 1e6 * message_s(point->slowest_s));
    event_end();
}

/* Reports the points that have been measured since the last call. */
static void write_points(void)
{
    for (const int done = atomic_load(&sizes.done); reported < done; reported++)
        write_point(reported);
}

static int64_t tick(struct flow_threads *threads)
{
    (void)threads;
    write_points();
    return FOREVER;
}

static const struct flow_work work = {.prepare = prepare, .run = sizes_work, .tick = tick};

static void release_memory(void)
{
    if (sizes.memory)
        munmap(sizes.memory, sizes.memory_size);
    if (sizes.spreads)
        munmap(sizes.spreads, spreads_size());
    sizes.memory = NULL;
    sizes.spreads = NULL;
}

static bool run(struct job *job)
{
    struct flow_threads *threads = &sizes.threads;
    memset(&sizes, 0, sizeof sizes);
    sizes.params = params;
    sizes.planned = sizes_plan(params.min_size, params.max_size, params.perturbation, sizes.plan);
    sizes_schedule_begin();
    reported = 0;
    threads->work = &work;
    threads->stall_limit_s = params.link.stall_timeout_s;
    threads->total_limit_s = params.duration_s + DRAIN_S;
    const bool ok = threads_run(threads, job, &sizes.params.link);
    if (ok)
        write_points();
    release_memory();
    return ok;
}

static void write_result(const struct job *job)
{
    (void)job;
    const struct flow_threads *threads = &sizes.threads;
    threads_write_begin(threads);
    out_format(",\"elapsed_s\":%.9f,\"mode\":\"%s\",\"check\":%s", threads->elapsed_s,
               modes[sizes.params.mode], sizes.params.check ? "true" : "false");
    if (!threads->params->listens)
        out_format(",\"points\":%d,\"complete\":%s", sizes.done, sizes.complete ? "true" : "false");
    out_format(",\"flows\":[");
    for (int i = 0; i < threads->count; i++) {
        out_format("%s{\"flow\":%d,\"messages\":%llu", i ? "," : "", i,
                   (unsigned long long)sizes.movers[i].messages);
        threads_write_one(&threads->of[i]);
        out_format("}");
    }
    out_format("]");
    threads_write_end(threads);
}

const struct kind sizes_kind = {"sizes", false, read_params, run, write_result, false};
