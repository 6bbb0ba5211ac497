/* What the jobs with a server have in common. */
#ifndef OSMEF_SERVING_H
#define OSMEF_SERVING_H

#include "job.h"
#include "link.h"
#include "server.h"

struct serving {
    char bind[HOST_SIZE]; /* a numeric address */
    int port;             /* 0: any free one */
    int threads;
};

/* Reads `bind`, `port` (`listen_port` for one that relays) and `threads`. */
bool serving_read(const struct json_object *command, bool relays, struct serving *serving,
                  char problem[PROBLEM_SIZE]);

/* Serves until the job is stopped. Returns false when it has failed. */
bool serving_run(struct job *job, const struct serving *serving, const struct service *service);

/* Appends the counters of the last job. */
void serving_write(void);

/* The same as a text line. */
void serving_print(void);

#endif
