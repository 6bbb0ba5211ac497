/* Socket options that differ between the flows of a job: flow i has the i-th item of each list,
 * modulo its length. */
#ifndef OSMEF_PER_FLOW_OPTIONS_H
#define OSMEF_PER_FLOW_OPTIONS_H

#include "options.h"

#define MAX_PER_FLOW_OPTIONS 16

struct per_flow_options {
    int marks; /* 0: all flows have the DSCP of the job */
    int dscp[MAX_PER_FLOW_OPTIONS];
    int algorithms; /* 0: all flows have the congestion control of the job */
    char congestion_control[MAX_PER_FLOW_OPTIONS][CONGESTION_SIZE];
};

bool per_flow_options_read(const struct json_object *command, struct per_flow_options *options,
                           char *problem);

/* Sets the options of a flow, by its number among those of its direction. Returns false and fails
 * the job when the kernel refuses one. */
bool per_flow_options_apply(struct job *job, const struct per_flow_options *options, int fd,
                            int number);

#endif
