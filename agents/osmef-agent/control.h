/* The controller's commands. They are read wherever the main thread waits, so that `abort` and the
 * end of standard input take effect at any time. */
#ifndef OSMEF_CONTROL_H
#define OSMEF_CONTROL_H

#include "commands.h"
#include "fields.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define CHANNEL_INPUT_SIZE (64 * 1024)

struct kind;

struct control {
    struct commands commands;
    const struct kind *const *kinds; /* of jobs that are accepted; ends with NULL */
    bool busy;                       /* there is a job that has not ended */
    const struct kind *kind;         /* its kind, or that of the one before */
    char id[ID_SIZE];                /* its id, or that of the one before */
    bool stoppable;                  /* `stop` is allowed: the job then ends with its result */
    bool start;                      /* `start` was received */
    int64_t start_ns;                /* the time of the start; 0: at once */
    bool stop;                       /* `stop` was received */
    bool abort;                      /* `abort` was received */
    char channel_input[CHANNEL_INPUT_SIZE]; /* text of `write` that the job has not consumed yet */
    size_t channel_input_size;
};

/* Waits until one of the descriptors is ready, a command was received, or the time has come. fds[0]
 * is set to the descriptor of the commands. Exits the program at the end of the commands. */
void control_wait(struct control *control, struct pollfd *fds, nfds_t count, int64_t until_ns);

#endif
