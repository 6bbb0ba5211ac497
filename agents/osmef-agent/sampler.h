/* The series of intervals. */
#ifndef OSMEF_SAMPLER_H
#define OSMEF_SAMPLER_H

#include "job.h"

struct sampler {
    int64_t next_ns; /* FOREVER: the last interval runs to the end of the transfer */
};

/* There is one sampler, as there is one job at a time. */
const struct sampler *sampler_start(const struct job *job);

/* Reports the interval that ends now and sets the next deadline. */
void sampler_tick(const struct job *job);

/* Reports the last interval. */
void sampler_finish(const struct job *job, int64_t end_ns);

#endif
