#include "sizes.h"

#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LARGEST (1 << 30)
#define MOST_MEMORY ((uint64_t)2 << 30)
/* How long after its duration the batch in hand may take. */
#define DRAIN_S 60.0
#define PAGE 4096

static struct sizes_params params; /* of the job that was read last */
static struct sizes sizes;
static int told; /* points */

/* Each flow has a buffer for what comes; what goes is the same for all unless it is checked. */
static uint64_t memory_size(const struct sizes_params *p)
{
    const uint64_t buffer = (p->max_size + PAGE - 1) / PAGE * PAGE;
    const uint64_t flows = (uint64_t)p->link.opening.flows;
    return buffer * (p->check ? 2 * flows : flows + 1);
}

static bool is_possible(char *problem)
{
    if (params.min_size < 1 || params.max_size < params.min_size || params.max_size > LARGEST) {
        snprintf(problem, PROBLEM_SIZE, "min_size and max_size must be from 1 to %d, in this order",
                 LARGEST);
        return false;
    }
    if (memory_size(&params) > MOST_MEMORY) {
        snprintf(problem, PROBLEM_SIZE,
                 "the buffers would take more than 2 GiB; use fewer flows or a smaller max_size");
        return false;
    }
    return true;
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    static const char *const modes[] = {"pingpong", "stream", "both", NULL};
    params = (struct sizes_params){.link.opening.kind = OPENING_SIZES};
    return link_read(command, &params.link, problem) &&
           field_size_or(command, "min_size", 1, &params.min_size, problem) &&
           field_size_or(command, "max_size", 8 << 20, &params.max_size, problem) &&
           field_size_or(command, "perturbation", 3, &params.perturbation, problem) &&
           field_word_or(command, "mode", modes, PINGPONG, &params.mode, problem) &&
           field_flag_or(command, "check", false, &params.check, problem) &&
           field_number_or(command, "point_s", 0.001, 1000, 0.5, &params.point_s, problem) &&
           field_whole_or(command, "trials", 1, MAX_TRIALS, 3, &params.trials, problem) &&
           field_whole_or(command, "min_repetitions", 1, 1000000, 3, &params.least, problem) &&
           field_number(command, "duration_s", SHORTEST_S, LONGEST_S, &params.duration_s,
                        problem) &&
           is_possible(problem);
}

static void *map(size_t size)
{
    void *const memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static size_t spreads_size(void)
{
    return sizeof *sizes.spreads * (size_t)sizes.planned * (size_t)sizes.crew.count;
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

/* Pages that are touched now cost no time in the sweep. */
static bool prepare(struct crew *crew)
{
    sizes.memory_size = memory_size(&sizes.params);
    sizes.memory = map(sizes.memory_size);
    sizes.spreads = map(spreads_size());
    if (!sizes.memory || !sizes.spreads)
        return job_fail(crew->job, "resource", -1,
                        "no memory for messages of %llu bytes on %d flows: %s",
                        (unsigned long long)sizes.params.max_size, crew->count, strerror(errno));
    share_memory(crew->count);
    return true;
}

/* Tells the points that have been measured since the last time. */
static void tell_points(void)
{
    for (const int done = atomic_load(&sizes.done); told < done; told++)
        sizes_tell_point(&sizes, told);
}

static int64_t tick(struct crew *crew)
{
    (void)crew;
    tell_points();
    return FOREVER;
}

static const struct trade trade = {prepare, sizes_work, tick};

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
    struct crew *crew = &sizes.crew;
    memset(&sizes, 0, sizeof sizes);
    sizes.params = params;
    sizes.planned = sizes_plan(params.min_size, params.max_size, params.perturbation, sizes.plan);
    sizes_schedule_begin();
    told = 0;
    crew->trade = &trade;
    crew->patience_s = params.link.stall_timeout_s;
    crew->longest_s = params.duration_s + DRAIN_S;
    const bool ok = crew_run(crew, job, &sizes.params.link);
    if (ok)
        tell_points();
    release_memory();
    return ok;
}

static void tell_result(const struct job *job)
{
    (void)job;
    sizes_tell_result(&sizes);
}

const struct kind sizes_kind = {"sizes", false, read_params, run, tell_result, false};
