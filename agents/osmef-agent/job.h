/* A job of any kind: its id, its controller, and why it failed. */
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
    bool standalone; /* no controller: host may be a name, and a listening end has no arm timeout */
};

/* The output of a job: as JSON events, or as text lines. */
struct report {
    void (*listening)(const struct job *job, const char *address, int port);
    void (*connected)(const struct job *job);
    void (*failed)(const struct job *job);
};

/* Records why the job failed, unless it has failed already. Returns false. */
__attribute__((format(printf, 4, 5))) bool job_fail(struct job *job, const char *kind, int flow,
                                                    const char *format, ...);

/* Fails the job since a socket could not be opened; fewer of `what` may need fewer sockets. */
bool job_fail_socket(struct job *job, const char *kind, int flow, int error, const char *what);

/* Returns true, and fails the job, when it was aborted. */
bool job_aborted(struct job *job);

#endif
