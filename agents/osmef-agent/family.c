#include "family.h"

#include "clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The killed ones need a moment to end. */
#define PAUSE_MS 1
/* Of how many processes the children are found, too, in one look: the others' turn comes when these
 * have ended. */
#define MOST_KNOWN 4096

void family_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

bool family_reap(struct family *family)
{
    for (;;) {
        int status;
        struct rusage usage;
        const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0)
            return pid == 0 || errno != ECHILD;
        family->user_s += seconds_of(usage.ru_utime);
        family->system_s += seconds_of(usage.ru_stime);
        if (usage.ru_maxrss > family->max_rss_kb)
            family->max_rss_kb = usage.ru_maxrss;
        if (pid == family->first) {
            family->ended = true;
            family->status = status;
            family->ended_ns = now_ns();
        }
    }
}

struct relative {
    pid_t pid;
    char state;
    pid_t parent;
    pid_t group;
};

/* Reads /proc/PID/stat (proc(5)), in which the name may hold anything. */
static bool look_at(const char *pid, struct relative *relative)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%.10s/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *const behind_name = strrchr(text, ')');
    if (!behind_name || strlen(behind_name) < 4)
        return false;
    char *at;
    relative->pid = (pid_t)strtol(pid, NULL, 10);
    relative->state = behind_name[2];
    relative->parent = (pid_t)strtol(behind_name + 3, &at, 10);
    relative->group = (pid_t)strtol(at, NULL, 10);
    return true;
}

static int compare(const void *one, const void *other)
{
    const pid_t a = *(const pid_t *)one, b = *(const pid_t *)other;
    return (a > b) - (a < b);
}

/* A group is killed at once, so that none of it can fork meanwhile. It has relatives only: the
 * program had a session of its own from its start. */
static void kill_one(pid_t pid, pid_t group)
{
    if (group > 1 && group != getpgrp())
        kill(-group, SIGKILL);
    kill(pid, SIGKILL);
}

/* Where the kernel lists our children (CONFIG_PROC_CHILDREN) it is so quick that one that forks and
 * ends again and again is met, too: each that has lost its parent is a child of ours. */
static void kill_children(void)
{
    char path[64], text[4096], *at = text, *end;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    /* A number at the end of a full text may be cut off. */
    for (pid_t pid; (pid = (pid_t)strtol(at, &end, 10)) > 0 && *end; at = end)
        kill_one(pid, getpgid(pid));
}

/* One look at all processes, whose numbers /proc tells in ascending order. Who has a lower number
 * than its parent is not known as a relative: it becomes a child of ours when the parent is dead.
 */
static int kill_found(void)
{
    pid_t known[MOST_KNOWN];
    size_t count = 1;
    int found = 0;
    struct dirent *entry;
    struct relative relative;
    DIR *proc = opendir("/proc");
    known[0] = getpid();
    while (proc && (entry = readdir(proc))) {
        if (!isdigit((unsigned char)*entry->d_name) || !look_at(entry->d_name, &relative))
            continue;
        if (relative.parent != known[0] &&
            !bsearch(&relative.parent, known + 1, count - 1, sizeof *known, compare))
            continue;
        if (relative.state != 'Z') {
            kill_one(relative.pid, relative.group);
            found++;
        }
        if (count < MOST_KNOWN && (count == 1 || relative.pid > known[count - 1]))
            known[count++] = relative.pid;
    }
    if (proc)
        closedir(proc);
    return found;
}

int family_kill(struct family *family, int64_t until_ns)
{
    while (family_reap(family)) {
        kill_children();
        const int found = kill_found();
        if (now_ns() > until_ns)
            return found;
        poll(NULL, 0, PAUSE_MS);
    }
    return 0;
}
