#include "program.h"

#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define NOT_RUN 127

extern char **environ;

static int check_file(const char *path)
{
    struct stat file;
    if (stat(path, &file) < 0)
        return errno;
    if (!S_ISREG(file.st_mode))
        return EACCES;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* As execvp(3), but a file that the kernel can't execute is not passed to a shell. */
int program_find(struct program *program)
{
    const char *const name = program->argv[0];
    if (strchr(name, '/')) {
        snprintf(program->path, sizeof program->path, "%s", name);
        return strlen(name) < sizeof program->path ? check_file(name) : ENAMETOOLONG;
    }
    int why = ENOENT;
    const char *at = getenv("PATH");
    for (at = at ? at : DEFAULT_PATH; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        const int length = (int)strcspn(at, ":");
        const int size = snprintf(program->path, sizeof program->path, "%.*s/%s",
                                  length ? length : 1, length ? at : ".", name);
        if (size < 0 || (size_t)size >= sizeof program->path)
            continue;
        const int found = check_file(program->path);
        if (found == 0)
            return 0;
        /* A folder that can't be searched is no reason. */
        why = found == EACCES && access(program->path, F_OK) == 0 ? EACCES : why;
    }
    return why;
}

/* Gives the program the usual signal state: none ignored, none blocked. It is killed when the
 * supervisor ends, and its descendants then are killed by the agent. */
static void prepare(pid_t parent)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(NOT_RUN);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void send_errno(int fd)
{
    const int why = errno;
    if (write(fd, &why, sizeof why) != sizeof why)
        _exit(NOT_RUN);
}

/* A traced process stops after execve(2), before the program's first instruction (ptrace(2)). */
int program_try(const struct program *program)
{
    int ends[2], why = 0, status;
    const pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    const pid_t pid = fork();
    if (pid == 0) {
        prepare(parent);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) {
            execve(program->path, program->argv, environ);
            send_errno(ends[1]);
        }
        _exit(NOT_RUN);
    }
    if (pid < 0)
        why = errno;
    while (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        kill(pid, SIGKILL);
    close(ends[1]);
    if (read(ends[0], &why, sizeof why) != sizeof why && pid > 0)
        why = 0;
    close(ends[0]);
    return why;
}

pid_t program_hold(const struct program *program, int start, int error)
{
    char byte;
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prepare(parent);
    setsid();
    dup2(program->input, STDIN_FILENO);
    dup2(program->output[0], STDOUT_FILENO);
    dup2(program->output[1], STDERR_FILENO);
    umask(S_IWGRP | S_IWOTH);
    limits_restore();
    if (program->channel >= 0)
        fcntl(program->channel, F_SETFD, 0); /* the only one that it keeps */
    if (read(start, &byte, 1) == 1) {
        execve(program->path, program->argv, environ);
        send_errno(error);
    }
    _exit(NOT_RUN);
}
