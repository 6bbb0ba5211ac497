/* How much CPU time the control groups of this process allow, and how often they used it up. */
#ifndef OSMEF_QUOTA_H
#define OSMEF_QUOTA_H

#include <stdint.h>

/* A container has one to three; those above the first MAX_QUOTAS groups are not looked at. */
#define MAX_QUOTAS 8

struct quota {
    double cpus;          /* CPU time per time; 0: this group has no quota */
    int64_t periods;      /* that had something to run */
    int64_t throttled;    /* those of them in which the quota was used up */
    int64_t throttled_us; /* time that its CPUs lost by that, all together */
};

struct quotas {
    int count;
    struct quota of[MAX_QUOTAS]; /* from the process's own group upwards */
};

/* Reads them for version 1 and 2 of control groups. Where they can't be found `count` is 0. */
void quotas_read(struct quotas *quotas);

/* Counts from an earlier reading on. */
void quotas_since(const struct quotas *earlier, struct quotas *now);

/* The one that was used up most often; NULL: there was none at work. */
const struct quota *quotas_tightest(const struct quotas *quotas);

#endif
