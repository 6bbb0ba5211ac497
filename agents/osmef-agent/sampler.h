/* The series of intervals. */
#ifndef OSMEF_SAMPLER_H
#define OSMEF_SAMPLER_H

#include "bulk.h"

struct sampler {
    int64_t next_ns; /* FOREVER: the last interval runs to the end of the transfer */
};

/* There is one sampler, as there is one job at a time. */
const struct sampler *sampler_start(const struct bulk *bulk);

/* Reports the interval that ends now and sets the next deadline. The one that falls on the end of
 * the warm-up begins the measured part. */
void sampler_tick(struct bulk *bulk);

/* Begins the measured part of each way with the sample that was taken last, at `now`. */
void sampler_end_warmup(struct bulk *bulk, int64_t now);

/* Reports the last interval. */
void sampler_finish(const struct bulk *bulk, int64_t end_ns);

#endif
