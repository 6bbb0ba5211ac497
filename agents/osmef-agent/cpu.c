#include "cpu.h"

#include "clock.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CPUS 8192

const char *const stat_names[STAT_COLUMNS] = {"user", "nice",    "system", "idle", "iowait",
                                              "irq",  "softirq", "steal",  "guest"};

/* Returns how long the calling thread has waited in run queues (the second number of schedstat,
 * sched-stats.rst of the kernel), or a negative number. */
static double run_queue_wait_s(void)
{
    char path[64], text[96];
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second ? (double)strtoull(second, NULL, 10) / 1e9 : -1;
}

struct cpu_time cpu_time(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (struct cpu_time){
        (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6,
        (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6,
        who == RUSAGE_THREAD ? run_queue_wait_s() : -1,
        who == RUSAGE_THREAD ? sched_getcpu() : -1,
    };
}

struct cpu_time cpu_since(struct cpu_time earlier, int who)
{
    const struct cpu_time now = cpu_time(who);
    /* A kernel without this counter reports 0. A thread that has run has waited at least for its
     * start. */
    const bool known = now.wait_s > 0 && earlier.wait_s >= 0;
    return (struct cpu_time){
        now.user_s - earlier.user_s,
        now.system_s - earlier.system_s,
        known ? now.wait_s - earlier.wait_s : -1,
        now.last_cpu,
    };
}

int64_t cpu_max_rss_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Adds a line "cpuN user nice ..." if this process may run on that CPU. */
static void add_line(struct endpoint_time *sum, const char *line, const cpu_set_t *allowed,
                     size_t size)
{
    char *at;
    const unsigned long cpu = strtoul(line + strlen("cpu"), &at, 10);
    if (at == line + strlen("cpu") || cpu >= MAX_CPUS || !CPU_ISSET_S(cpu, size, allowed))
        return;
    const double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    const bool listed = sum->cpus < MAX_LISTED_CPUS;
    if (listed)
        sum->number[sum->cpus] = (int)cpu;
    int columns = 0;
    while (columns < STAT_COLUMNS) {
        char *end;
        const unsigned long long ticks = strtoull(at, &end, 10);
        if (end == at)
            break;
        if (listed)
            sum->each[sum->cpus][columns] = (double)ticks * tick_s;
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
    quotas_read(&sum.quotas);
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
    for (int cpu = 0; cpu < now.cpus && cpu < MAX_LISTED_CPUS; cpu++)
        for (int i = 0; i < STAT_COLUMNS; i++)
            now.each[cpu][i] -= earlier.each[cpu][i];
    quotas_since(&earlier.quotas, &now.quotas);
    return now;
}
