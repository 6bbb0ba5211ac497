/* The CPU quotas of this process's control groups, and how often they were used up. */
#ifndef OSMEF_QUOTA_H
#define OSMEF_QUOTA_H

#include <stdint.h>

/* A container has one to three groups with quotas; only MAX_QUOTAS levels are read. */
#define MAX_QUOTAS 8

struct quota {
    double cpus;          /* CPU time per time; 0: no quota */
    int64_t periods;      /* with runnable tasks */
    int64_t throttled;    /* periods in which the quota was used up */
    int64_t throttled_us; /* the throttled time of all its CPUs */
};

struct quotas {
    int count;
    struct quota of[MAX_QUOTAS]; /* from the process's own group upwards */
};

/* Reads them from control groups of version 1 or 2. Where there are none `count` is 0. */
void quotas_read(struct quotas *quotas);

/* Replaces `now` by the increase since an earlier reading. */
void quotas_since(const struct quotas *earlier, struct quotas *now);

/* The quota that throttled most often; NULL: there is none. */
const struct quota *quotas_tightest(const struct quotas *quotas);

#endif
