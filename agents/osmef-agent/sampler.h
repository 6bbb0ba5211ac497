/* The series of intervals. */
#ifndef OSMEF_SAMPLER_H
#define OSMEF_SAMPLER_H

#include "bulk.h"

/* There is one series, as there is one job at a time. */
void sampler_start(const struct bulk *bulk);

/* Reports the interval that ends now, if one does. The one that falls on the end of the warm-up
 * begins the measured part. Returns when the next one ends; FOREVER: with the transfer. */
int64_t sampler_tick(struct bulk *bulk);

/* Begins the measured part of each way with the sample that was taken last, at `now`. */
void sampler_end_warmup(struct bulk *bulk, int64_t now);

/* Reports the last interval. */
void sampler_finish(const struct bulk *bulk, int64_t end_ns);

#endif
