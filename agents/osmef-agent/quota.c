#include "quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest path of a group or of a file in it. */
#define PATH_SIZE 1024
#define LINE_SIZE (3 * PATH_SIZE)

/* The control group of this process, from /proc. */
struct cgroup_location {
    char mount[PATH_SIZE]; /* the mount point of the hierarchy */
    char root[PATH_SIZE];  /* the path of the mounted group in /proc */
    char group[PATH_SIZE]; /* the path of the group of this process in /proc */
};

static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

/* Finds the line "number:controllers:group" of the hierarchy with the CPU controller; in version 2
 * the controllers are empty (cgroups(7)). */
static bool find_group(const char *controller, char *group)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[LINE_SIZE];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        found = *controller ? has_word(controllers + 1, controller) : controllers[1] == '\0';
        snprintf(group, PATH_SIZE, "%.*s", PATH_SIZE - 1, path);
    }
    if (file)
        fclose(file);
    return found;
}

/* Finds the mount in /proc/self/mountinfo (proc(5)): root and mount point are its fourth and fifth
 * field, and behind " - " are the type, the source and the controllers. */
static bool is_mount(char *line, const char *type, const char *controller,
                     struct cgroup_location *location)
{
    char *behind = strstr(line, " - ");
    const char *field[5], *its[3];
    if (!behind)
        return false;
    *behind = '\0';
    behind += strlen(" - ");
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        field[i] = strsep(&line, " ");
    for (size_t i = 0; i < sizeof its / sizeof *its; i++)
        its[i] = strsep(&behind, " \n");
    if (!field[4] || !its[2] || strcmp(its[0], type) != 0 ||
        (*controller && !has_word(its[2], controller)))
        return false;
    snprintf(location->root, sizeof location->root, "%.*s", PATH_SIZE - 1, field[3]);
    snprintf(location->mount, sizeof location->mount, "%.*s", PATH_SIZE - 1, field[4]);
    return true;
}

static bool find_mount(const char *type, const char *controller, struct cgroup_location *location)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[LINE_SIZE];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = is_mount(line, type, controller, location);
    if (file)
        fclose(file);
    return found;
}

/* In a container the mount may begin at its own group while /proc has the path on the host. */
static void below_root(struct cgroup_location *location)
{
    const size_t length = strlen(location->root);
    const char *rest = location->group;
    if (length > 1 && strncmp(rest, location->root, length) == 0)
        rest += length;
    if (strcmp(rest, "/") == 0 || strncmp(rest, "/..", 3) == 0)
        rest = "";
    memmove(location->group, rest, strlen(rest) + 1);
}

static FILE *open_in(const struct cgroup_location *location, const char *name)
{
    char path[2 * PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s%s/%s", location->mount, location->group, name);
    return fopen(path, "re");
}

/* Reads up to two integers; "max" and missing ones are 0. */
static void read_numbers(const struct cgroup_location *location, const char *name,
                         long long number[2])
{
    FILE *file = open_in(location, name);
    char text[64] = "", *end;
    number[0] = number[1] = 0;
    if (!file)
        return;
    if (fgets(text, sizeof text, file)) {
        number[0] = strtoll(text, &end, 10);
        number[1] = strtoll(end, NULL, 10);
    }
    fclose(file);
}

static double read_limit(const struct cgroup_location *location, bool second)
{
    long long quota_us[2], period_us[2];
    read_numbers(location, second ? "cpu.max" : "cpu.cfs_quota_us", quota_us);
    if (second)
        period_us[0] = quota_us[1];
    else
        read_numbers(location, "cpu.cfs_period_us", period_us);
    return quota_us[0] > 0 && period_us[0] > 0 ? (double)quota_us[0] / (double)period_us[0] : 0;
}

/* Reads cpu.stat; version 1 counts throttled_time in nanoseconds (sched-bwc.rst of the kernel). */
static void read_group(const struct cgroup_location *location, bool second, struct quota *quota)
{
    *quota = (struct quota){.cpus = read_limit(location, second)};
    FILE *file = quota->cpus > 0 ? open_in(location, "cpu.stat") : NULL;
    char line[96];
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *rest = line;
        const char *name = strsep(&rest, " ");
        const long long value = rest ? strtoll(rest, NULL, 10) : 0;
        if (strcmp(name, "nr_periods") == 0)
            quota->periods = value;
        else if (strcmp(name, "nr_throttled") == 0)
            quota->throttled = value;
        else if (strcmp(name, "throttled_usec") == 0)
            quota->throttled_us = value;
        else if (strcmp(name, "throttled_time") == 0)
            quota->throttled_us = value / 1000;
    }
    fclose(file);
}

void quotas_read(struct quotas *quotas)
{
    static struct cgroup_location location;
    const bool first = find_group("cpu", location.group) && find_mount("cgroup", "cpu", &location);
    quotas->count = 0;
    if (!first && !(find_group("", location.group) && find_mount("cgroup2", "", &location)))
        return;
    below_root(&location);
    while (quotas->count < MAX_QUOTAS) {
        read_group(&location, !first, &quotas->of[quotas->count++]);
        char *last = strrchr(location.group, '/');
        if (!last)
            return;
        *last = '\0';
    }
}

void quotas_since(const struct quotas *earlier, struct quotas *now)
{
    /* Nothing is known when the process has moved to another group or its quota has changed. */
    if (earlier->count != now->count)
        now->count = 0;
    for (int i = 0; i < now->count; i++) {
        struct quota *quota = &now->of[i];
        quota->periods -= earlier->of[i].periods;
        quota->throttled -= earlier->of[i].throttled;
        quota->throttled_us -= earlier->of[i].throttled_us;
        if (earlier->of[i].cpus != quota->cpus || quota->periods < 0)
            quota->cpus = 0;
    }
}

const struct quota *quotas_tightest(const struct quotas *quotas)
{
    const struct quota *tightest = NULL;
    for (int i = 0; i < quotas->count; i++) {
        const struct quota *quota = &quotas->of[i];
        if (quota->cpus > 0 && (!tightest || quota->throttled > tightest->throttled))
            tightest = quota;
    }
    return tightest;
}
