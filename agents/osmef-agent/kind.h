/* What the agent can do. There is one job at a time, so a kind keeps its parameters and its outcome
 * in storage of its own. */
#ifndef OSMEF_KIND_H
#define OSMEF_KIND_H

#include "fields.h"
#include "job.h"

struct kind {
    const char *name; /* the command's `cmd` */
    bool serves;      /* it runs until `stop`, or may do so */
    /* Reads the command. Returns false and says in `problem` what is wrong with it. Only called
     * while no job runs. */
    bool (*read)(const struct json_object *command, char problem[PROBLEM_SIZE]);
    /* Does the job up to the point where its result is known, and gives everything back: who reads
     * the result may count on it that the agent holds no connection any more. Returns false when
     * the job has failed. */
    bool (*run)(struct job *job);
    /* Appends the result's own members to the event. */
    void (*result)(const struct job *job);
    bool hears; /* it takes what `write` brings out of the control's words */
};

/* Ends with NULL. */
extern const struct kind *const kinds[];

#endif
