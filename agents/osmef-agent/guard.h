/* Runs a program for a job, below a process of its own: the guardian, the parent of whatever the
 * program starts. It kills all of that when the program ends, when it is told so, and when the agent
 * is gone, however that ended. */
#ifndef OSMEF_GUARD_H
#define OSMEF_GUARD_H

#include "job.h"
#include "scratch.h"

#include <stdint.h>
#include <sys/types.h>

struct order {
    char **argv;
    char **env;        /* NAME=VALUE, added to the agent's own */
    const char *dir;   /* "": the agent's own */
    const char *input; /* what the program reads; "": nothing */
    const struct scratch *scratch; /* is removed at the end, whoever is killed */
    const char *channel; /* the variable that tells it the descriptor of its channel; "": none */
};

/* What the guardian tells, in this order; a program that can't be run is FAILED instead. */
enum note_kind {
    NOTE_ARMED,   /* only the go is missing */
    NOTE_STARTED, /* the program runs */
    NOTE_FAILED,  /* it can't be run: `place` and `why` */
    NOTE_ENDED,   /* it has ended: `status` and `at_ns`; what it had started gets killed */
    NOTE_DONE,    /* that is gone, too, but for `left`; the use of all; `why` a scratch is left */
};

/* PLACE_LOADING: the program is there, and the kernel does not load it. */
enum note_place { PLACE_DIR, PLACE_PROGRAM, PLACE_LOADING, PLACE_SYSTEM };

struct note {
    enum note_kind kind;
    enum note_place place;
    int why; /* errno */
    int status;
    int64_t at_ns;
    int left;
    double user_s;
    double system_s;
    int64_t max_rss_kb;
};

struct guard {
    const struct scratch *scratch;
    pid_t pid;     /* of the guardian; 0: there is none */
    int notes;     /* a socket to it */
    int go;        /* a byte into it, and the program is run */
    int output[2]; /* the program's standard output and error */
    int channel;   /* a socket to the program; -1: there is none */
};

/* Starts a guardian, which holds the program ready. Returns false when the job has failed. */
bool guard_open(struct job *job, const struct order *order, struct guard *guard);

/* Lets the program run. */
void guard_go(struct guard *guard);

/* Sends SIGTERM to the program's process group, or SIGKILL to everything. */
void guard_terminate(const struct guard *guard);
void guard_kill(const struct guard *guard);

/* Reads a note, if there is one. Returns false when the guardian is gone. */
bool guard_read(const struct guard *guard, struct note *note, bool *there);

/* Kills whatever is left, waits for its end, and gives everything back. */
void guard_close(struct guard *guard);

/* The guardian's own part: what it holds, and its life. */
struct guardian {
    const struct order *order;
    int notes;
    int go;
    int input;
    int output[2];
    int channel;
};

#define GUARD_TERMINATE 't'
#define GUARD_KILL 'k'
#define GUARD_PATIENCE_S 5.0 /* for what was killed and does not end */

_Noreturn void guardian_live(const struct guardian *guardian);

#endif
