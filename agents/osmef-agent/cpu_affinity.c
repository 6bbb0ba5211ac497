#include "cpu_affinity.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CPUS 8192

/* A set for more CPUs than the 1024 of cpu_set_t. */
union cpu_mask {
    cpu_set_t set;
    unsigned char bytes[MAX_CPUS / 8];
};

bool affinity_read(const char *text, struct affinity *affinity)
{
    const char *at = text;
    affinity->count = 0;
    for (;;) {
        char *end;
        const unsigned long cpu = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || cpu >= MAX_CPUS || affinity->count == MAX_AFFINITY_CPUS)
            return false;
        affinity->cpus[affinity->count++] = (int)cpu;
        if (!*end)
            return true;
        if (*end != ',')
            return false;
        at = end + 1;
    }
}

/* Writes the set as ranges, "0-3,8", truncated to the size. */
static void list_cpus(const union cpu_mask *mask, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int cpu = 0; cpu < MAX_CPUS && used + 16 < size; cpu++) {
        const int first = cpu;
        if (!CPU_ISSET_S(cpu, sizeof *mask, &mask->set))
            continue;
        while (cpu + 1 < MAX_CPUS && CPU_ISSET_S(cpu + 1, sizeof *mask, &mask->set))
            cpu++;
        used += (size_t)snprintf(text + used, size - used, "%s%d", used ? "," : "", first);
        if (cpu > first)
            used += (size_t)snprintf(text + used, size - used, "-%d", cpu);
    }
}

bool affinity_allowed(struct job *job, const struct affinity *affinity)
{
    static union cpu_mask allowed;
    memset(&allowed, 0, sizeof allowed);
    if (affinity->count == 0 || sched_getaffinity(0, sizeof allowed, &allowed.set) < 0)
        return true;
    for (int i = 0; i < affinity->count; i++) {
        char list[128];
        if (CPU_ISSET_S(affinity->cpus[i], sizeof allowed, &allowed.set))
            continue;
        list_cpus(&allowed, list, sizeof list);
        return job_fail(job, "option", -1, "this process may not use CPU %d; it may use %s",
                        affinity->cpus[i], list);
    }
    return true;
}

bool affinity_bind(struct flow_thread *thread, const struct affinity *affinity, int number)
{
    union cpu_mask one = {0};
    if (affinity->count == 0)
        return true;
    const int cpu = affinity->cpus[number % affinity->count];
    CPU_SET_S(cpu, sizeof one, &one.set);
    return sched_setaffinity(0, sizeof one, &one.set) == 0 ||
           thread_fail(thread, "option", "can't bind a thread to CPU %d: %s", cpu, strerror(errno));
}
