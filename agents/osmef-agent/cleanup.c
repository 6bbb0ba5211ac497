#include "cleanup.h"

#include "clock.h"
#include "scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGENT "osmef-agent"
#define REMOVAL_TIMEOUT_S 10.0 /* programs that are being killed may still write */
#define PAUSE_US 50000

static const char help[] = "Usage: osmef-agent cleanup DIRECTORY [LINK TARGET]\n";

/* Waits for the end of standard input. Returns whether anything was read before. */
static bool wait_for_end(void)
{
    bool received = false;
    char byte;
    for (;;) {
        const ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            return received;
        received = received || got > 0;
    }
}

enum occupant { OWN, ANOTHER, NONE };

/* A controller that reconnects replaces the agent's file, and the directory then belongs to the new
 * agent. While this process runs, no other file has the inode number of its executable. */
static enum occupant agent_in(const char *directory)
{
    char path[PATH_MAX];
    struct stat own, there;
    const int length = snprintf(path, sizeof path, "%s/" AGENT, directory);
    if (length >= (int)sizeof path || lstat(path, &there) < 0)
        return NONE;
    if (stat("/proc/self/exe", &own) < 0)
        return ANOTHER;
    return own.st_dev == there.st_dev && own.st_ino == there.st_ino ? OWN : ANOTHER;
}

/* Returns whether the directory has been removed, or belongs to another agent. */
static bool remove_own(const char *directory)
{
    struct scratch scratch;
    const int64_t deadline = now_ns() + seconds_ns(REMOVAL_TIMEOUT_S);
    if (scratch_open(&scratch, directory))
        return false;
    int failed = scratch_take(&scratch, directory);
    while (!failed && (failed = scratch_remove(&scratch)) && now_ns() < deadline) {
        usleep(PAUSE_US);
        failed = agent_in(directory) == ANOTHER ? failed : 0;
    }
    scratch_close(&scratch);
    return !failed;
}

static void remove_link(const char *link, const char *target)
{
    char current[PATH_MAX];
    const ssize_t length = readlink(link, current, sizeof current);
    if (length == (ssize_t)strlen(target) && memcmp(current, target, (size_t)length) == 0)
        unlink(link);
}

int cleanup(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fputs(help, stderr);
        return 2;
    }
    signal(SIGHUP, SIG_IGN);
    const bool keep_link = wait_for_end();
    if (agent_in(argv[1]) != OWN)
        return EXIT_SUCCESS;
    if (!remove_own(argv[1]))
        return EXIT_FAILURE;
    if (argc == 4 && !keep_link)
        remove_link(argv[2], argv[3]);
    return EXIT_SUCCESS;
}
