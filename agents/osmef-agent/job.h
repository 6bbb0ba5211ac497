/* A job, whatever its kind: who it is, who steers it, and why it failed. */
#ifndef OSMEF_JOB_H
#define OSMEF_JOB_H

#include "control.h"

#include <stdbool.h>

struct failure {
    const char *kind; /* NULL: nothing failed */
    int flow;         /* -1: no particular one */
    char message[768];
};

struct report;

struct job {
    char id[ID_SIZE];
    const struct kind *kind;
    struct control *control;
    const struct report *report;
    struct failure failure;
    bool by_hand; /* host may be a name; a listening end waits for ever */
};

/* How a job tells what happens: as JSON events, or as lines for people. */
struct report {
    void (*listening)(const struct job *job, const char *address, int port);
    void (*connected)(const struct job *job);
    void (*failed)(const struct job *job);
};

/* Notes why the job failed; the first reason stands. Returns false. */
__attribute__((format(printf, 4, 5))) bool job_fail(struct job *job, const char *kind, int flow,
                                                    const char *format, ...);

/* Returns true, and fails the job, when it was aborted. */
bool job_aborted(struct job *job);

#endif
