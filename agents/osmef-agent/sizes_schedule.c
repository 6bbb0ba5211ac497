/* The connecting end's schedule: for each size some calibration batches, to find how long a message
 * takes, then the trials. */
#include "clock.h"
#include "sizes.h"

#include <stdlib.h>

/* The calibration takes this part of the time of a size. It also warms up buffers and windows. */
#define CALIBRATION_PARTS 16
/* A calibration batch that took less than this part of its time is repeated. */
#define SHORTEST_CALIBRATION 0.25
#define MAX_CALIBRATIONS 12
/* A calibration batch has at most this many times the messages of the one before: the first few may
 * have passed in a burst. */
#define MAX_GROWTH 8

static struct {
    int point;
    int calibrations;             /* calibration batches of this size */
    int trials;                   /* that have begun; 0: in calibration */
    double each_s;                /* time of a repetition on the slowest flow; 0: unknown */
    double slowest_s[MAX_TRIALS]; /* the same of each trial */
} schedule;

void sizes_schedule_begin(void)
{
    schedule.point = schedule.calibrations = schedule.trials = 0;
    schedule.each_s = 0;
}

/* For few items: qsort(3) would be more code. */
static void sort(double *times, int count)
{
    for (int i = 1; i < count; i++) {
        const double time = times[i];
        int at = i;
        for (; at > 0 && times[at - 1] > time; at--)
            times[at] = times[at - 1];
        times[at] = time;
    }
}

static struct spread spread_of(double *times, int count)
{
    sort(times, count);
    const double median = (times[(count - 1) / 2] + times[count / 2]) / 2;
    return (struct spread){times[0], median, times[count - 1]};
}

static void end_point(struct sizes *sizes)
{
    struct spread *spreads = sizes->spreads + (size_t)schedule.point * (size_t)sizes->threads.count;
    for (int i = 0; i < sizes->threads.count; i++)
        spreads[i] = spread_of(sizes->movers[i].trials_s, schedule.trials);
    struct point *point = &sizes->points[schedule.point];
    point->trials = schedule.trials;
    point->slowest_s = spread_of(schedule.slowest_s, schedule.trials).median_s;
    atomic_fetch_add(&sizes->done, 1);
    threads_wake(&sizes->threads);
}

static bool begin_point(struct sizes *sizes, int point)
{
    schedule.point = point;
    schedule.calibrations = schedule.trials = 0;
    if (point == sizes->planned) {
        sizes->complete = true;
        return false;
    }
    if (point > 0) /* in proportion to the size, at most */
        schedule.each_s *= (double)sizes->plan[point] / (double)sizes->plan[point - 1];
    sizes->points[point].size = sizes->plan[point];
    /* A point that would end too late is not begun. */
    const struct sizes_params *p = &sizes->params;
    const double least_s = schedule.each_s * (1 + (double)p->trials * p->least);
    return ns_seconds(now_ns() - sizes->threads.start_ns) + least_s < p->duration_s;
}

/* Evaluates the last batch. */
static void evaluate_batch(struct sizes *sizes)
{
    schedule.each_s = 0;
    for (int i = 0; i < sizes->threads.count; i++) {
        struct mover *mover = &sizes->movers[i];
        if (mover->batch_s > schedule.each_s)
            schedule.each_s = mover->batch_s;
        if (schedule.trials > 0)
            mover->trials_s[schedule.trials - 1] = mover->batch_s;
    }
    if (schedule.trials > 0) {
        schedule.slowest_s[schedule.trials - 1] = schedule.each_s;
        sizes->points[schedule.point].repetitions += sizes->batch.repetitions;
    }
}

static bool is_calibrated(const struct sizes *sizes)
{
    const double lasted_s = schedule.each_s * (double)sizes->batch.repetitions;
    return schedule.calibrations == MAX_CALIBRATIONS ||
           (schedule.calibrations > 0 &&
            lasted_s >= SHORTEST_CALIBRATION * sizes->params.point_s / CALIBRATION_PARTS);
}

/* Returns the repetitions of the next batch of this size; 0 when the size is done. */
static uint64_t next_repetitions(const struct sizes *sizes)
{
    const struct sizes_params *p = &sizes->params;
    if (schedule.trials == 0 && !is_calibrated(sizes)) {
        const uint64_t most = schedule.calibrations > 0 ? MAX_GROWTH * sizes->batch.repetitions : 1;
        const uint64_t wanted =
            sizes_repetitions(p->point_s / CALIBRATION_PARTS, schedule.each_s, 1);
        schedule.calibrations++;
        return wanted < most ? wanted : most;
    }
    const bool late = ns_seconds(now_ns() - sizes->threads.start_ns) > p->duration_s;
    if (schedule.trials == p->trials || (late && schedule.trials > 0))
        return 0;
    schedule.trials++;
    return sizes_repetitions(p->point_s / p->trials, schedule.each_s, (uint64_t)p->least);
}

void sizes_schedule_next(struct flow_threads *threads)
{
    struct sizes *sizes = (struct sizes *)threads; /* its first member */
    struct batch *batch = &sizes->batch;
    bool more = true;
    if (batch->repetitions > 0) {
        evaluate_batch(sizes);
        batch->number++;
    } else {
        more = begin_point(sizes, 0);
    }
    uint64_t repetitions = more ? next_repetitions(sizes) : 0;
    if (more && repetitions == 0) {
        end_point(sizes);
        more = begin_point(sizes, schedule.point + 1);
        repetitions = more ? next_repetitions(sizes) : 0;
    }
    batch->size = more ? sizes->plan[schedule.point] : 0;
    batch->repetitions = repetitions;
}
