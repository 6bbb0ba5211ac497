/* The series of intervals of a transfer. */
#ifndef OSMEF_SAMPLER_H
#define OSMEF_SAMPLER_H

#include "bulk.h"

/* There is one series, since there is one job at a time. */
void sampler_start(const struct bulk *bulk);

/* Reports an interval if one ends now. The interval that ends with the warm-up begins the measured
 * part. Returns when the next one ends; FOREVER: at the end of the transfer. */
int64_t sampler_tick(struct bulk *bulk);

/* Begins the measured part of each direction with the last sample, at `now`. */
void sampler_end_warmup(struct bulk *bulk, int64_t now);

/* Reports the last interval. */
void sampler_finish(const struct bulk *bulk, int64_t end_ns);

#endif
