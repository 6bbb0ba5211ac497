#include "cpu.h"

#include "clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_CPUS 8192

const char *const stat_names[STAT_COLUMNS] = {"user", "nice",    "system", "idle", "iowait",
                                              "irq",  "softirq", "steal",  "guest"};

struct cpu_time cpu_time(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (struct cpu_time){
        (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6,
        (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6,
        who == RUSAGE_THREAD ? sched_getcpu() : -1,
    };
}

struct cpu_time cpu_since(struct cpu_time earlier, int who)
{
    const struct cpu_time now = cpu_time(who);
    return (struct cpu_time){
        now.user_s - earlier.user_s,
        now.system_s - earlier.system_s,
        now.last_cpu,
    };
}

int64_t cpu_max_rss_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Adds one line "cpuN user nice ..." if we may run on that CPU. */
static void add_line(struct endpoint_time *sum, const char *line, const cpu_set_t *allowed,
                     size_t size)
{
    char *at;
    const unsigned long cpu = strtoul(line + strlen("cpu"), &at, 10);
    if (at == line + strlen("cpu") || cpu >= MAX_CPUS || !CPU_ISSET_S(cpu, size, allowed))
        return;
    const double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    int columns = 0;
    while (columns < STAT_COLUMNS) {
        char *end;
        const unsigned long long ticks = strtoull(at, &end, 10);
        if (end == at)
            break;
        sum->seconds[columns++] += (double)ticks * tick_s;
        at = end;
    }
    sum->columns = columns;
    sum->cpus++;
}

struct endpoint_time endpoint_time(void)
{
    struct endpoint_time sum = {.at_ns = now_ns()};
    static _Alignas(cpu_set_t) unsigned char mask[MAX_CPUS / 8];
    cpu_set_t *allowed = (cpu_set_t *)(void *)mask;
    FILE *stat = fopen("/proc/stat", "re");
    if (!stat)
        return sum;
    if (sched_getaffinity(0, sizeof mask, allowed) == 0) {
        char line[512];
        while (fgets(line, sizeof line, stat) && strncmp(line, "cpu", 3) == 0)
            add_line(&sum, line, allowed, sizeof mask);
    }
    fclose(stat);
    return sum;
}

struct endpoint_time endpoint_since(struct endpoint_time earlier)
{
    struct endpoint_time now = endpoint_time();
    now.at_ns -= earlier.at_ns;
    for (int i = 0; i < STAT_COLUMNS; i++)
        now.seconds[i] -= earlier.seconds[i];
    return now;
}
