#include "clock.h"
#include "family.h"
#include "guard.h"
#include "program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_OPEN 65536

static struct {
    const struct guardian *is;
    struct program program;
    struct family family;
    int failed; /* the program's process tells here why it can't be run; -1: that is settled */
    bool terminates;
} guardian;

static void tell(struct note note)
{
    send(guardian.is->notes, &note, sizeof note, MSG_NOSIGNAL);
}

/* Nobody waits for a guardian that has said this. */
static _Noreturn void fail(enum note_place place, int why)
{
    scratch_remove(guardian.is->order->scratch);
    tell((struct note){.kind = NOTE_FAILED, .place = place, .why = why});
    _exit(EXIT_FAILURE);
}

static void hear(int number)
{
    (void)number;
}

/* Only SIGKILL ends it, and SIGCHLD wakes it where it waits. */
static void take_signals(void)
{
    sigset_t blocked;
    for (int number = 1; number < NSIG; number++)
        signal(number, number == SIGCHLD ? hear : SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static bool is_mine(int fd)
{
    const struct guardian *is = guardian.is;
    return fd == is->notes || fd == is->go || fd == is->input || fd == is->output[0] ||
           fd == is->output[1] || fd == is->order->scratch->parent || fd == is->channel;
}

/* The agent's connections end with the agent, and the program gets none that were left open. */
static void close_others(void)
{
    static unsigned char doomed[MOST_OPEN];
    struct dirent *entry;
    DIR *fds = opendir("/proc/self/fd");
    while (fds && (entry = readdir(fds))) {
        const long fd = strtol(entry->d_name, NULL, 10);
        if (fd > STDERR_FILENO && fd < MOST_OPEN && fd != dirfd(fds))
            doomed[fd] = !is_mine((int)fd);
    }
    if (fds)
        closedir(fds);
    for (int fd = 0; fd < MOST_OPEN; fd++)
        if (doomed[fd])
            close(fd);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        dup2(nothing, fd);
    close(nothing);
}

/* The program finds the number of its channel in its environment. */
static void name_channel(void)
{
    static char number[16];
    snprintf(number, sizeof number, "%d", guardian.is->channel);
    if (guardian.is->channel >= 0)
        setenv(guardian.is->order->channel, number, 1);
}

static void hold_program(void)
{
    int ends[2];
    struct program *program = &guardian.program;
    const struct order *order = guardian.is->order;
    *program = (struct program){
        .argv = order->argv,
        .input = guardian.is->input,
        .output = {guardian.is->output[0], guardian.is->output[1]},
        .channel = guardian.is->channel,
    };
    for (char **entry = order->env; *entry; entry++)
        putenv(*entry);
    name_channel();
    if (*order->dir && chdir(order->dir) < 0)
        fail(PLACE_DIR, errno);
    int why = program_find(program);
    if (why)
        fail(PLACE_PROGRAM, why);
    why = program_try(program);
    if (why)
        fail(PLACE_LOADING, why);
    if (pipe2(ends, O_CLOEXEC) < 0)
        fail(PLACE_SYSTEM, errno);
    guardian.family.first = program_hold(program, guardian.is->go, ends[1]);
    if (guardian.family.first < 0)
        fail(PLACE_SYSTEM, errno);
    guardian.failed = ends[0];
    close(ends[1]);
    close(guardian.is->go);
    close(guardian.is->input);
    close(guardian.is->output[0]);
    close(guardian.is->output[1]);
    if (guardian.is->channel >= 0)
        close(guardian.is->channel);
    tell((struct note){.kind = NOTE_ARMED});
}

/* The pipe closes as the program begins; before that it may bring the reason why it can't. */
static void settle(void)
{
    int why;
    if (guardian.failed < 0)
        return;
    if (read(guardian.failed, &why, sizeof why) == sizeof why)
        tell((struct note){.kind = NOTE_FAILED, .place = PLACE_LOADING, .why = why});
    else
        tell((struct note){.kind = NOTE_STARTED});
    close(guardian.failed);
    guardian.failed = -1;
}

/* Returns false when everything is to be killed. */
static bool obey(void)
{
    char command;
    if (read(guardian.is->notes, &command, 1) != 1 || command == GUARD_KILL)
        return false;
    /* It may not have got as far as its own group. */
    if (kill(-guardian.family.first, SIGTERM) < 0)
        kill(guardian.family.first, SIGTERM);
    return true;
}

/* Until the program has ended or is to be killed. */
static void watch(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (;;) {
        struct pollfd fds[] = {{.fd = guardian.is->notes, .events = POLLIN},
                               {.fd = guardian.failed, .events = POLLIN}};
        const int ready = ppoll(fds, 2, NULL, &none);
        family_reap(&guardian.family);
        if (guardian.family.ended || (ready > 0 && fds[1].revents))
            settle();
        if (guardian.family.ended || (ready > 0 && fds[0].revents && !obey()))
            return;
    }
}

static void tell_end(void)
{
    tell((struct note){.kind = NOTE_ENDED,
                       .status = guardian.family.status,
                       .at_ns = guardian.family.ended_ns});
}

_Noreturn void guardian_live(const struct guardian *is)
{
    struct family *family = &guardian.family;
    guardian.is = is;
    setsid();
    family_adopt();
    take_signals();
    close_others();
    hold_program();
    watch();
    const bool by_itself = family->ended;
    if (by_itself)
        tell_end();
    const int left = family_kill(family, now_ns() + seconds_ns(GUARD_PATIENCE_S));
    if (!by_itself && family->ended) {
        settle();
        tell_end();
    }
    const int why = scratch_remove(is->order->scratch);
    tell((struct note){.kind = NOTE_DONE,
                       .why = why,
                       .left = left,
                       .user_s = family->user_s,
                       .system_s = family->system_s,
                       .max_rss_kb = family->max_rss_kb});
    _exit(EXIT_SUCCESS);
}
