/* The CPUs that threads are bound to. */
#ifndef OSMEF_CPU_AFFINITY_H
#define OSMEF_CPU_AFFINITY_H

#include "flow_threads.h"

#define MAX_AFFINITY_CPUS 256
#define AFFINITY_SIZE 1024

struct affinity {
    int count; /* 0: threads are not bound */
    int cpus[MAX_AFFINITY_CPUS];
};

/* Reads a list like "0,2,5". */
bool affinity_read(const char *text, struct affinity *affinity);

/* Returns false and fails the job when this process may not use one of the CPUs. */
bool affinity_allowed(struct job *job, const struct affinity *affinity);

/* Binds the calling thread to the CPU at this number in the list, modulo its length. */
bool affinity_bind(struct flow_thread *thread, const struct affinity *affinity, int number);

#endif
