#include "guard.h"

#include "clock.h"
#include "family.h"
#include "unnamed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The guardian gives up before that. */
#define CLOSE_S (2 * GUARD_PATIENCE_S)
#define LOOK_MS 1

static struct guard *current; /* NULL: there is none */

/* The pairs of descriptors that the agent and the guardian share, the agent's first. */
struct ends {
    int notes[2];
    int go[2];
    int output[2][2];
    int input;
    int channel[2];
};

static bool open_ends(const struct order *order, struct ends *ends)
{
    int turned[2];
    memset(ends, -1, sizeof *ends);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->notes) < 0 ||
        pipe2(turned, O_CLOEXEC) < 0)
        return false;
    ends->go[0] = turned[1];
    ends->go[1] = turned[0];
    for (int i = 0; i < 2; i++) {
        if (pipe2(ends->output[i], O_CLOEXEC) < 0)
            return false;
        fcntl(ends->output[i][0], F_SETFL, O_NONBLOCK);
    }
    if (*order->channel) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->channel) < 0)
            return false;
        fcntl(ends->channel[0], F_SETFL, O_NONBLOCK);
    }
    ends->input = *order->input ? unnamed_file(order->input, strlen(order->input))
                                : open("/dev/null", O_RDONLY | O_CLOEXEC);
    return ends->input >= 0 && (!*order->input || lseek(ends->input, 0, SEEK_SET) == 0);
}

static void close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Closes the agent's ends (0) or the guardian's (1). */
static void close_ends(const struct ends *ends, int whose)
{
    close_one(ends->notes[whose]);
    close_one(ends->go[whose]);
    close_one(ends->output[0][whose]);
    close_one(ends->output[1][whose]);
    close_one(ends->channel[whose]);
    if (whose == 1)
        close_one(ends->input);
}

static _Noreturn void become_guardian(const struct order *order, const struct ends *ends)
{
    guardian_live(&(struct guardian){
        .order = order,
        .notes = ends->notes[1],
        .go = ends->go[1],
        .input = ends->input,
        .output = {ends->output[0][1], ends->output[1][1]},
        .channel = ends->channel[1],
    });
}

/* The end of the controller is the end of the agent, in the middle of a job. */
static void leave(void)
{
    if (current)
        guard_close(current);
}

bool guard_open(struct job *job, const struct order *order, struct guard *guard)
{
    static bool leaves;
    struct ends ends;
    if (!leaves)
        leaves = atexit(leave) == 0;
    family_adopt(); /* what a guardian that was killed has left comes to us */
    signal(SIGCHLD, SIG_DFL);
    const bool open = open_ends(order, &ends);
    const pid_t pid = open ? fork() : -1;
    if (pid == 0)
        become_guardian(order, &ends);
    const int why = errno;
    close_ends(&ends, 1);
    if (pid < 0) {
        close_ends(&ends, 0);
        return job_fail(job, "resource", -1, "no process for the program: %s", strerror(why));
    }
    *guard = (struct guard){
        .scratch = order->scratch,
        .pid = pid,
        .notes = ends.notes[0],
        .go = ends.go[0],
        .output = {ends.output[0][0], ends.output[1][0]},
        .channel = ends.channel[0],
    };
    current = guard;
    return true;
}

void guard_go(struct guard *guard)
{
    const ssize_t written = write(guard->go, "", 1);
    (void)written; /* one that has gone is told by its guardian */
    close(guard->go);
    guard->go = -1;
}

static void command(const struct guard *guard, char what)
{
    send(guard->notes, &what, 1, MSG_NOSIGNAL);
}

void guard_terminate(const struct guard *guard)
{
    command(guard, GUARD_TERMINATE);
}

void guard_kill(const struct guard *guard)
{
    command(guard, GUARD_KILL);
}

bool guard_read(const struct guard *guard, struct note *note, bool *there)
{
    const ssize_t got = recv(guard->notes, note, sizeof *note, MSG_DONTWAIT);
    *there = got == sizeof *note;
    return got != 0 && (got > 0 || errno == EAGAIN || errno == EINTR);
}

/* The end of the socket tells it to kill everything. Returns whether it has come to its own end. */
static bool await_guardian(pid_t pid)
{
    int status = 0;
    const int64_t deadline_ns = now_ns() + seconds_ns(CLOSE_S);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ns() > deadline_ns)
            kill(pid, SIGKILL);
        if (now_ns() > deadline_ns + NS_PER_S)
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    return WIFEXITED(status);
}

void guard_close(struct guard *guard)
{
    struct family family = {.first = guard->pid};
    if (!guard->pid)
        return;
    close(guard->notes);
    close_one(guard->go);
    close_one(guard->output[0]);
    close_one(guard->output[1]);
    close_one(guard->channel);
    /* The family of one that was killed is ours. */
    if (await_guardian(guard->pid))
        family_reap(&family);
    else
        family_kill(&family, now_ns() + seconds_ns(GUARD_PATIENCE_S));
    scratch_remove(guard->scratch); /* as a guardian that was killed could not */
    guard->pid = 0;
    current = NULL;
}
