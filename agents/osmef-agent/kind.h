/* The kinds of jobs. There is one job at a time, so each kind has static storage for its parameters
 * and its result. */
#ifndef OSMEF_KIND_H
#define OSMEF_KIND_H

#include "fields.h"
#include "job.h"

struct kind {
    const char *name; /* the command's `cmd` */
    bool serves;      /* `stop` is allowed */
    /* Reads the command. Returns false with what is wrong with it in `problem`. Is not called while
     * a job runs. */
    bool (*read)(const struct json_object *command, char problem[PROBLEM_SIZE]);
    /* Does the job and releases all resources: at the time of the result the agent has no
     * connection of the job open. Returns false when the job has failed. */
    bool (*run)(struct job *job);
    /* Appends the result's own members to the event. */
    void (*result)(const struct job *job);
    bool accepts_input; /* `write` is allowed: it consumes the control's channel_input */
};

/* Ends with NULL. */
extern const struct kind *const kinds[];

#endif
