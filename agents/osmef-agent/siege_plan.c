/* Which sizes a siege asks for, and in which order. */
#include "number.h"
#include "pages.h"
#include "siege.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The widest range that is drawn from without replacement. */
#define WIDEST 100000000

struct siege siege;

/* SplitMix64 (Steele, Lea, Flood 2014): the same seed draws the same plan everywhere. */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 <= number < below < 2^32, evenly up to 1 in 2^32. */
static int64_t random_below(uint64_t *state, int64_t below)
{
    return (int64_t)(((random_bits(state) >> 32) * (uint64_t)below) >> 32);
}

static int64_t range_of(const struct siege_params *params)
{
    return (int64_t)params->size_max - params->size_min + 1;
}

/* The number of sizes; -1: the list is invalid. */
static int64_t count_sizes(const struct siege_params *params)
{
    if (!params->sizes[0]) {
        /* Rounded, since 0.29 of 100 is slightly less than 29 in binary. */
        const int64_t count = (int64_t)((double)range_of(params) * params->coverage + 0.5);
        return count ? count : 1;
    }
    int64_t count = 0;
    for (const char *at = params->sizes; *at || at == params->sizes; count++) {
        double size;
        const char *const end = number_read(at, &size);
        if (!end || size < 0 || size > 1 << 30 || size != floor(size) ||
            (*end && (*end != ',' || !end[1])))
            return -1;
        at = *end ? end + 1 : end;
    }
    return count;
}

bool siege_check(const struct siege_params *params, char problem[PROBLEM_SIZE])
{
    const char *why = NULL;
    const char *const mark = strstr(params->path, SIEGE_MARK);
    const int64_t count = params->size_min > params->size_max ? 0 : count_sizes(params);
    if (params->size_min > params->size_max)
        why = "size_min must not be greater than size_max";
    else if (count < 0)
        why = "sizes must be whole numbers up to 1073741824 with commas between them";
    else if (!params->replacement && !params->sizes[0] && range_of(params) > WIDEST)
        why = "a range of more than 100000000 sizes needs replacement";
    else if (count * params->repetitions > SIEGE_REQUESTS)
        why = "there would be more than 10000000 requests; lower coverage or repetitions";
    else if (mark && strstr(mark + 1, SIEGE_MARK))
        why = "path must have {size} only once";
    else if (params->path[0] != '/' || strpbrk(params->path, " \r\n\t"))
        why = "path must begin with / and have no spaces";
    if (why)
        snprintf(problem, PROBLEM_SIZE, "%s", why);
    return !why;
}

static void list_sizes(int64_t sizes)
{
    const char *at = siege.params.sizes;
    for (int64_t i = 0; i < sizes; i++) {
        double size = 0;
        at = number_read(at, &size) + 1;
        siege.requests[i].size = (int32_t)size;
    }
}

/* Without replacement by selection sampling (Knuth, volume 2, section 3.4.2, algorithm S). */
static void draw_sizes(int64_t sizes, uint64_t *state)
{
    const int low = siege.params.size_min;
    int64_t left = range_of(&siege.params);
    int64_t drawn = 0;
    for (int64_t i = 0; drawn < sizes; i++) {
        if (siege.params.replacement)
            siege.requests[drawn++].size = low + (int32_t)random_below(state, left);
        else if (random_below(state, left--) < sizes - drawn)
            siege.requests[drawn++].size = low + (int32_t)i;
    }
}

bool siege_plan(void)
{
    const int64_t sizes = count_sizes(&siege.params);
    uint64_t state = (uint64_t)siege.params.seed;
    siege.count = sizes * siege.params.repetitions;
    /* Its pages are touched before the start: no request waits for one. */
    siege.requests = pages_map((size_t)siege.count * sizeof *siege.requests, MAP_POPULATE);
    if (!siege.requests)
        return job_fail(siege.job, "resource", -1, "no memory for %lld requests: %s",
                        (long long)siege.count, strerror(errno));
    if (siege.params.sizes[0])
        list_sizes(sizes);
    else
        draw_sizes(sizes, &state);
    for (int64_t i = sizes; i < siege.count; i++)
        siege.requests[i].size = siege.requests[i - sizes].size;
    for (int64_t i = siege.count - 1; i > 0; i--) {
        const int64_t other = random_below(&state, i + 1);
        const int32_t size = siege.requests[i].size;
        siege.requests[i].size = siege.requests[other].size;
        siege.requests[other].size = size;
    }
    return true;
}

void siege_forget(void)
{
    if (siege.requests)
        munmap(siege.requests, (size_t)siege.count * sizeof *siege.requests);
    siege.requests = NULL;
}
