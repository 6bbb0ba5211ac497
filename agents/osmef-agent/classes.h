/* Options that the flows of a job have in turn: flow i the i-th of them, and so on again. */
#ifndef OSMEF_CLASSES_H
#define OSMEF_CLASSES_H

#include "options.h"

#define MAX_CLASSES 16

struct classes {
    int marks; /* 0: all flows have the DSCP of the job */
    int dscp[MAX_CLASSES];
    int algorithms; /* 0: all flows have the congestion control of the job */
    char congestion_control[MAX_CLASSES][CONGESTION_SIZE];
};

bool classes_read(const struct json_object *command, struct classes *classes, char *problem);

/* Gives the flow that has this number among those of its direction its options. Returns false and
 * fails the job when the kernel refuses one. */
bool classes_apply(struct job *job, const struct classes *classes, int fd, int number);

#endif
