/* CPU time of a thread, of the process and of the whole endpoint. */
#ifndef OSMEF_CPU_H
#define OSMEF_CPU_H

#include "quota.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu_time {
    double user_s;
    double system_s;
    double wait_s; /* runnable, but waiting for a CPU; negative: unknown, as for a process */
    int last_cpu;  /* where the thread runs now; negative: unknown */
};

/* `who` is RUSAGE_THREAD or RUSAGE_SELF of getrusage(2). */
struct cpu_time cpu_time(int who);
struct cpu_time cpu_since(struct cpu_time earlier, int who);
int64_t cpu_max_rss_kb(void);

/* The columns of /proc/stat (proc(5)) in their order. */
enum {
    STAT_USER,
    STAT_NICE,
    STAT_SYSTEM,
    STAT_IDLE,
    STAT_IOWAIT,
    STAT_IRQ,
    STAT_SOFTIRQ,
    STAT_STEAL,
    STAT_GUEST,
    STAT_COLUMNS
};
extern const char *const stat_names[STAT_COLUMNS];

/* Further CPUs are in the sum, but not listed. */
#define MAX_LISTED_CPUS 512

struct endpoint_time {
    int64_t at_ns;
    int cpus;
    int columns; /* number of columns of this kernel */
    double seconds[STAT_COLUMNS];
    /* Each of the first MAX_LISTED_CPUS: one CPU may be saturated while the sum is low. */
    int number[MAX_LISTED_CPUS];
    double each[MAX_LISTED_CPUS][STAT_COLUMNS];
    struct quotas quotas;
};

/* Sums /proc/stat over the CPUs that this process may run on: in a pinned VM or container the
 * others belong to other systems. Without a readable /proc/stat `cpus` is 0. */
struct endpoint_time endpoint_time(void);
struct endpoint_time endpoint_since(struct endpoint_time earlier);

#endif
