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
#define PATIENCE_S 10.0 /* with programs that are just being killed and still write */
#define PAUSE_US 50000

static const char help[] = "Usage: osmef-agent cleanup DIRECTORY [LINK TARGET]\n";

/* Waits for the end of standard input. Returns whether anything was said before. */
static bool listen_to_end(void)
{
    bool said = false;
    char byte;
    for (;;) {
        const ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got == 0 || (got < 0 && errno != EINTR))
            return said;
        said = said || got > 0;
    }
}

enum found { OWN, ANOTHER, NONE };

/* A controller that has come back replaces the agent, and then all there is the new one's. While
 * this process runs, no other file has the number of its own. */
static enum found agent_in(const char *directory)
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

/* Returns whether it is gone. */
static bool remove_own(const char *directory)
{
    struct scratch scratch;
    const int64_t deadline = now_ns() + seconds_ns(PATIENCE_S);
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
    char found[PATH_MAX];
    const ssize_t length = readlink(link, found, sizeof found);
    if (length == (ssize_t)strlen(target) && memcmp(found, target, (size_t)length) == 0)
        unlink(link);
}

int cleanup(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fputs(help, stderr);
        return 2;
    }
    signal(SIGHUP, SIG_IGN);
    const bool keeps_link = listen_to_end();
    if (agent_in(argv[1]) != OWN)
        return EXIT_SUCCESS;
    if (!remove_own(argv[1]))
        return EXIT_FAILURE;
    if (argc == 4 && !keeps_link)
        remove_link(argv[2], argv[3]);
    return EXIT_SUCCESS;
}
