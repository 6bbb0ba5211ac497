#include "descendants.h"

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

/* Killed processes need a moment to end. */
#define PAUSE_MS 1
/* How many processes' children are found in one pass over /proc; those of further processes are
 * found in a later pass. */
#define MAX_KNOWN 4096

void become_subreaper(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

bool reap_descendants(struct descendants *descendants)
{
    for (;;) {
        int status;
        struct rusage usage;
        const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0)
            return pid == 0 || errno != ECHILD;
        descendants->user_s += seconds_of(usage.ru_utime);
        descendants->system_s += seconds_of(usage.ru_stime);
        if (usage.ru_maxrss > descendants->max_rss_kb)
            descendants->max_rss_kb = usage.ru_maxrss;
        if (pid == descendants->first) {
            descendants->ended = true;
            descendants->status = status;
            descendants->ended_ns = now_ns();
        }
    }
}

struct process {
    pid_t pid;
    char state;
    pid_t parent;
    pid_t group;
};

/* Reads /proc/PID/stat (proc(5)). The name of the program in it may contain any characters. */
static bool read_process(const char *pid, struct process *process)
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
    process->pid = (pid_t)strtol(pid, NULL, 10);
    process->state = behind_name[2];
    process->parent = (pid_t)strtol(behind_name + 3, &at, 10);
    process->group = (pid_t)strtol(at, NULL, 10);
    return true;
}

static int compare_pids(const void *one, const void *other)
{
    const pid_t a = *(const pid_t *)one, b = *(const pid_t *)other;
    return (a > b) - (a < b);
}

/* A process group is killed in one call, so that none of it can fork meanwhile. All of its members
 * are descendants, since the program was started in a new session. */
static void kill_one(pid_t pid, pid_t group)
{
    if (group > 1 && group != getpgrp())
        kill(-group, SIGKILL);
    kill(pid, SIGKILL);
}

/* The kernel's list of children (CONFIG_PROC_CHILDREN) is read quickly enough to find also
 * processes that fork and exit all the time: each of them becomes a child of this process when its
 * parent has exited. */
static void kill_children(void)
{
    char path[64], text[4096], *at = text, *end;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    /* The last number of a full buffer may be incomplete. */
    for (pid_t pid; (pid = (pid_t)strtol(at, &end, 10)) > 0 && *end; at = end)
        kill_one(pid, getpgid(pid));
}

/* One pass over all processes, which /proc lists by ascending pid. A descendant with a lower pid
 * than its parent is not recognized; it becomes a child of this process once its parent has
 * ended. */
static int kill_listed(void)
{
    pid_t known[MAX_KNOWN];
    size_t count = 1;
    int found = 0;
    struct dirent *entry;
    struct process process;
    DIR *proc = opendir("/proc");
    known[0] = getpid();
    while (proc && (entry = readdir(proc))) {
        if (!isdigit((unsigned char)*entry->d_name) || !read_process(entry->d_name, &process))
            continue;
        if (process.parent != known[0] &&
            !bsearch(&process.parent, known + 1, count - 1, sizeof *known, compare_pids))
            continue;
        if (process.state != 'Z') {
            kill_one(process.pid, process.group);
            found++;
        }
        if (count < MAX_KNOWN && (count == 1 || process.pid > known[count - 1]))
            known[count++] = process.pid;
    }
    if (proc)
        closedir(proc);
    return found;
}

int kill_descendants(struct descendants *descendants, int64_t until_ns)
{
    while (reap_descendants(descendants)) {
        kill_children();
        const int found = kill_listed();
        if (now_ns() > until_ns)
            return found;
        poll(NULL, 0, PAUSE_MS);
    }
    return 0;
}
