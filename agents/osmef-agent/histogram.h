/* A histogram of durations in log-linear buckets, as in HdrHistogram (Tene, 2012): each octave is
 * divided into 32 buckets of equal width. Values below 64 ns are exact; any other is read back as
 * the middle of its bucket, which is at most 1/64 (1.5625 %) of it away. Fixed size, no allocation.
 * The range ends at 2^47 ns (39 h): longer durations are counted in the last bucket. */
#ifndef OSMEF_HISTOGRAM_H
#define OSMEF_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_OCTAVES 41 /* from 2^6 ns on */
#define HISTOGRAM_BUCKETS (64 + 32 * HISTOGRAM_OCTAVES)
#define HISTOGRAM_ERROR_PERCENT 1.5625

struct histogram {
    uint64_t count;
    int64_t min_ns; /* exact; both only when count > 0 */
    int64_t max_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Counts a duration; a negative one counts as zero. The initial state is all zero. */
void histogram_add(struct histogram *histogram, int64_t ns);

/* Adds the counts of `other`. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* Returns the value of rank ceil(q * count), 0 <= q <= 1; -1 for an empty histogram. */
int64_t histogram_quantile(const struct histogram *histogram, double q);

/* Appends "histogram":{"error_percent":..,"lower_ns":[..],"upper_ns":[..],"count":[..]} to the
 * current event: the non-empty buckets, each from lower to below upper. */
void histogram_write(const struct histogram *histogram);

#endif
