#include "clock.h"
#include "descendants.h"
#include "program.h"
#include "supervisor.h"

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

#define MAX_DESCRIPTORS 65536

static struct {
    const struct supervisor_context *context;
    struct program program;
    struct descendants descendants;
    int exec_error; /* pipe with the errno of a failed execve(2); -1: the outcome is known */
} self;

static void send_status(struct exec_status status)
{
    send(self.context->socket, &status, sizeof status, MSG_NOSIGNAL);
}

/* The last report: the agent waits for no other one. */
static _Noreturn void fail(enum failure_stage stage, int error)
{
    scratch_remove(self.context->request->scratch);
    send_status((struct exec_status){.kind = STATUS_FAILED, .stage = stage, .error = error});
    _exit(EXIT_FAILURE);
}

static void wake(int number)
{
    (void)number;
}

/* Only SIGKILL ends the supervisor. SIGCHLD only interrupts ppoll(2). */
static void set_signals(void)
{
    sigset_t blocked;
    for (int number = 1; number < NSIG; number++)
        signal(number, number == SIGCHLD ? wake : SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static bool is_used(int fd)
{
    const struct supervisor_context *context = self.context;
    return fd == context->socket || fd == context->start || fd == context->input ||
           fd == context->output[0] || fd == context->output[1] ||
           fd == context->request->scratch->parent || fd == context->channel;
}

/* The agent's connections must end with the agent, and the program must not inherit any. */
static void close_inherited(void)
{
    static unsigned char pending_close[MAX_DESCRIPTORS];
    struct dirent *entry;
    DIR *fds = opendir("/proc/self/fd");
    while (fds && (entry = readdir(fds))) {
        const long fd = strtol(entry->d_name, NULL, 10);
        if (fd > STDERR_FILENO && fd < MAX_DESCRIPTORS && fd != dirfd(fds))
            pending_close[fd] = !is_used((int)fd);
    }
    if (fds)
        closedir(fds);
    for (int fd = 0; fd < MAX_DESCRIPTORS; fd++)
        if (pending_close[fd])
            close(fd);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    close(null);
}

/* Puts the descriptor of the channel into the environment of the program. */
static void export_channel(void)
{
    static char number[16];
    snprintf(number, sizeof number, "%d", self.context->channel);
    if (self.context->channel >= 0)
        setenv(self.context->request->channel, number, 1);
}

static void prepare_program(void)
{
    int error_pipe[2];
    struct program *program = &self.program;
    const struct exec_request *request = self.context->request;
    *program = (struct program){
        .argv = request->argv,
        .input = self.context->input,
        .output = {self.context->output[0], self.context->output[1]},
        .channel = self.context->channel,
    };
    for (char **entry = request->env; *entry; entry++)
        putenv(*entry);
    export_channel();
    if (*request->dir && chdir(request->dir) < 0)
        fail(STAGE_DIRECTORY, errno);
    int error = program_find(program);
    if (error)
        fail(STAGE_PROGRAM, error);
    error = program_try(program);
    if (error)
        fail(STAGE_LOADING, error);
    if (pipe2(error_pipe, O_CLOEXEC) < 0)
        fail(STAGE_PROCESS, errno);
    self.descendants.first = program_hold(program, self.context->start, error_pipe[1]);
    if (self.descendants.first < 0)
        fail(STAGE_PROCESS, errno);
    self.exec_error = error_pipe[0];
    close(error_pipe[1]);
    close(self.context->start);
    close(self.context->input);
    close(self.context->output[0]);
    close(self.context->output[1]);
    if (self.context->channel >= 0)
        close(self.context->channel);
    send_status((struct exec_status){.kind = STATUS_ARMED});
}

/* execve(2) closes the pipe; an errno in it says why execve() failed. */
static void report_start(void)
{
    int error;
    if (self.exec_error < 0)
        return;
    if (read(self.exec_error, &error, sizeof error) == sizeof error)
        send_status(
            (struct exec_status){.kind = STATUS_FAILED, .stage = STAGE_LOADING, .error = error});
    else
        send_status((struct exec_status){.kind = STATUS_STARTED});
    close(self.exec_error);
    self.exec_error = -1;
}

/* Returns false when all descendants are to be killed. */
static bool handle_command(void)
{
    char command;
    if (read(self.context->socket, &command, 1) != 1 || command == SUPERVISOR_KILL)
        return false;
    /* The program may not have its own process group yet. */
    if (kill(-self.descendants.first, SIGTERM) < 0)
        kill(self.descendants.first, SIGTERM);
    return true;
}

/* Returns when the program has ended or is to be killed. */
static void supervise(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (;;) {
        struct pollfd fds[] = {{.fd = self.context->socket, .events = POLLIN},
                               {.fd = self.exec_error, .events = POLLIN}};
        const int ready = ppoll(fds, 2, NULL, &none);
        reap_descendants(&self.descendants);
        if (self.descendants.ended || (ready > 0 && fds[1].revents))
            report_start();
        if (self.descendants.ended || (ready > 0 && fds[0].revents && !handle_command()))
            return;
    }
}

static void report_end(void)
{
    send_status((struct exec_status){.kind = STATUS_ENDED,
                                     .wait_status = self.descendants.status,
                                     .ended_ns = self.descendants.ended_ns});
}

_Noreturn void supervisor_run(const struct supervisor_context *context)
{
    struct descendants *descendants = &self.descendants;
    self.context = context;
    setsid();
    become_subreaper();
    set_signals();
    close_inherited();
    prepare_program();
    supervise();
    const bool exited = descendants->ended;
    if (exited)
        report_end();
    const int left = kill_descendants(descendants, now_ns() + seconds_ns(KILL_TIMEOUT_S));
    if (!exited && descendants->ended) {
        report_start();
        report_end();
    }
    const int error = scratch_remove(context->request->scratch);
    send_status((struct exec_status){.kind = STATUS_DONE,
                                     .error = error,
                                     .left = left,
                                     .user_s = descendants->user_s,
                                     .system_s = descendants->system_s,
                                     .max_rss_kb = descendants->max_rss_kb});
    _exit(EXIT_SUCCESS);
}
