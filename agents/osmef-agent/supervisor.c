#include "supervisor.h"

#include "anonymous_file.h"
#include "clock.h"
#include "descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than the supervisor itself takes at most. */
#define CLOSE_TIMEOUT_S (2 * KILL_TIMEOUT_S)
#define POLL_MS 1

static struct supervisor *current; /* NULL: there is none */

/* The pairs of descriptors between agent and supervisor, the agent's first. */
struct ends {
    int socket[2];
    int start[2];
    int output[2][2];
    int input;
    int channel[2];
};

static bool open_ends(const struct exec_request *request, struct ends *ends)
{
    int start_pipe[2];
    memset(ends, -1, sizeof *ends);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->socket) < 0 ||
        pipe2(start_pipe, O_CLOEXEC) < 0)
        return false;
    ends->start[0] = start_pipe[1];
    ends->start[1] = start_pipe[0];
    for (int i = 0; i < 2; i++) {
        if (pipe2(ends->output[i], O_CLOEXEC) < 0)
            return false;
        fcntl(ends->output[i][0], F_SETFL, O_NONBLOCK);
    }
    if (*request->channel) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->channel) < 0)
            return false;
        fcntl(ends->channel[0], F_SETFL, O_NONBLOCK);
    }
    ends->input = *request->input ? anonymous_file(request->input, strlen(request->input))
                                  : open("/dev/null", O_RDONLY | O_CLOEXEC);
    return ends->input >= 0 && (!*request->input || lseek(ends->input, 0, SEEK_SET) == 0);
}

static void close_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Closes the agent's ends (0) or the supervisor's (1). */
static void close_ends(const struct ends *ends, int side)
{
    close_open(ends->socket[side]);
    close_open(ends->start[side]);
    close_open(ends->output[0][side]);
    close_open(ends->output[1][side]);
    close_open(ends->channel[side]);
    if (side == 1)
        close_open(ends->input);
}

static _Noreturn void become_supervisor(const struct exec_request *request, const struct ends *ends)
{
    supervisor_run(&(struct supervisor_context){
        .request = request,
        .socket = ends->socket[1],
        .start = ends->start[1],
        .input = ends->input,
        .output = {ends->output[0][1], ends->output[1][1]},
        .channel = ends->channel[1],
    });
}

/* The agent exits when the controller has ended, also in the middle of a job. */
static void close_at_exit(void)
{
    if (current)
        supervisor_close(current);
}

bool supervisor_open(struct job *job, const struct exec_request *request,
                     struct supervisor *supervisor)
{
    static bool registered;
    struct ends ends;
    if (!registered)
        registered = atexit(close_at_exit) == 0;
    become_subreaper(); /* the new parent when a supervisor is killed */
    signal(SIGCHLD, SIG_DFL);
    const bool open = open_ends(request, &ends);
    const pid_t pid = open ? fork() : -1;
    if (pid == 0)
        become_supervisor(request, &ends);
    const int why = errno;
    close_ends(&ends, 1);
    if (pid < 0) {
        close_ends(&ends, 0);
        return job_fail(job, "resource", -1, "no process for the program: %s", strerror(why));
    }
    *supervisor = (struct supervisor){
        .scratch = request->scratch,
        .pid = pid,
        .socket = ends.socket[0],
        .start = ends.start[0],
        .output = {ends.output[0][0], ends.output[1][0]},
        .channel = ends.channel[0],
    };
    current = supervisor;
    return true;
}

void supervisor_start(struct supervisor *supervisor)
{
    const ssize_t written = write(supervisor->start, "", 1);
    (void)written; /* the supervisor reports a program that has ended */
    close(supervisor->start);
    supervisor->start = -1;
}

static void send_command(const struct supervisor *supervisor, char command)
{
    send(supervisor->socket, &command, 1, MSG_NOSIGNAL);
}

void supervisor_terminate(const struct supervisor *supervisor)
{
    send_command(supervisor, SUPERVISOR_TERMINATE);
}

void supervisor_kill(const struct supervisor *supervisor)
{
    send_command(supervisor, SUPERVISOR_KILL);
}

bool supervisor_read(const struct supervisor *supervisor, struct exec_status *status,
                     bool *received)
{
    const ssize_t got = recv(supervisor->socket, status, sizeof *status, MSG_DONTWAIT);
    *received = got == sizeof *status;
    return got != 0 && (got > 0 || errno == EAGAIN || errno == EINTR);
}

/* The supervisor kills all descendants when its socket is closed. Returns whether it has exited
 * without having been killed. */
static bool await_supervisor(pid_t pid)
{
    int status = 0;
    const int64_t deadline_ns = now_ns() + seconds_ns(CLOSE_TIMEOUT_S);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ns() > deadline_ns)
            kill(pid, SIGKILL);
        if (now_ns() > deadline_ns + NS_PER_S)
            return false;
        poll(NULL, 0, POLL_MS);
    }
    return WIFEXITED(status);
}

void supervisor_close(struct supervisor *supervisor)
{
    struct descendants descendants = {.first = supervisor->pid};
    if (!supervisor->pid)
        return;
    close(supervisor->socket);
    close_open(supervisor->start);
    close_open(supervisor->output[0]);
    close_open(supervisor->output[1]);
    close_open(supervisor->channel);
    /* The descendants of a supervisor that was killed are children of this process. */
    if (await_supervisor(supervisor->pid))
        reap_descendants(&descendants);
    else
        kill_descendants(&descendants, now_ns() + seconds_ns(KILL_TIMEOUT_S));
    scratch_remove(supervisor->scratch); /* a supervisor that was killed has not done so */
    supervisor->pid = 0;
    current = NULL;
}
