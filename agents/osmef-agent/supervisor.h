/* Runs a program for a job below a supervisor: a process that is the parent of whatever the program
 * starts. It kills all of these processes when the program ends, on the agent's command, and when
 * the agent has ended, even by SIGKILL. */
#ifndef OSMEF_SUPERVISOR_H
#define OSMEF_SUPERVISOR_H

#include "job.h"
#include "scratch.h"

#include <stdint.h>
#include <sys/types.h>

/* What is to be run, and how. */
struct exec_request {
    char **argv;
    char **env;                    /* NAME=VALUE, added to the agent's own */
    const char *dir;               /* "": the agent's own */
    const char *input;             /* the program's standard input; "": empty */
    const struct scratch *scratch; /* is removed at the end, even if a process here is killed */
    const char *channel; /* the variable with the descriptor of the program's channel; "": none */
};

/* What the supervisor reports, in this order; FAILED stands for all that would follow. */
enum status_kind {
    STATUS_ARMED,   /* the program waits for supervisor_start() */
    STATUS_STARTED, /* the program runs */
    STATUS_FAILED,  /* the program can't be run: `stage` and `error` */
    STATUS_ENDED,   /* it has ended: `wait_status` and `ended_ns`; its descendants get killed */
    STATUS_DONE,    /* they have ended, but for `left` of them; the resource usage of all; `error`
                       of the removal of the scratch directory */
};

/* LOADING: the file exists, but the kernel does not load it. */
enum failure_stage { STAGE_DIRECTORY, STAGE_PROGRAM, STAGE_LOADING, STAGE_PROCESS };

struct exec_status {
    enum status_kind kind;
    enum failure_stage stage;
    int error; /* errno */
    int wait_status;
    int64_t ended_ns;
    int left;
    double user_s;
    double system_s;
    int64_t max_rss_kb;
};

/* The agent's handle of a supervisor. */
struct supervisor {
    const struct scratch *scratch;
    pid_t pid;     /* 0: there is none */
    int socket;    /* for commands to it and its reports */
    int start;     /* a byte written here starts the program */
    int output[2]; /* the program's standard output and error */
    int channel;   /* a socket to the program; -1: there is none */
};

/* Forks a supervisor, which prepares the program. Returns false when the job has failed. */
bool supervisor_open(struct job *job, const struct exec_request *request,
                     struct supervisor *supervisor);

/* Starts the program. */
void supervisor_start(struct supervisor *supervisor);

/* Sends SIGTERM to the program's process group, or SIGKILL to all descendants. */
void supervisor_terminate(const struct supervisor *supervisor);
void supervisor_kill(const struct supervisor *supervisor);

/* Reads a report, if one has been received. Returns false when the supervisor has ended. */
bool supervisor_read(const struct supervisor *supervisor, struct exec_status *status,
                     bool *received);

/* Kills all descendants, waits for their end, and releases all resources. */
void supervisor_close(struct supervisor *supervisor);

/* What the supervisor process itself has: the other ends of the descriptors above. */
struct supervisor_context {
    const struct exec_request *request;
    int socket;
    int start;
    int input;
    int output[2];
    int channel;
};

/* The commands: a byte each. */
#define SUPERVISOR_TERMINATE 't'
#define SUPERVISOR_KILL 'k'
#define KILL_TIMEOUT_S 5.0 /* for processes that were killed and do not end */

/* The supervisor's process, from fork() to its end. */
_Noreturn void supervisor_run(const struct supervisor_context *context);

#endif
