/* The controller's commands. They are read wherever the main thread waits, so that an abort and
 * the end of standard input take effect at any moment. */
#ifndef OSMEF_CONTROL_H
#define OSMEF_CONTROL_H

#include "commands.h"
#include "fields.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define WORDS_SIZE (64 * 1024)

struct kind;

struct control {
    struct commands commands;
    const struct kind *const *kinds; /* of jobs that it takes; ends with NULL */
    bool busy;               /* there is a job that has not ended */
    const struct kind *kind; /* its kind, or that of the one before */
    char id[ID_SIZE];        /* its id, or that of the one before */
    bool stoppable;          /* it ends, and gives its result, when it is told to */
    bool start;              /* it was released */
    int64_t start_ns;        /* when it is to start; 0: at once */
    bool stop;               /* it is to end, and to give its result */
    bool abort;              /* it was aborted */
    char words[WORDS_SIZE];  /* what the job is told, until it takes it */
    size_t words_size;
};

/* Waits until one of the descriptors is ready, a command came, or the time is up. fds[0] is
 * taken for the commands. Exits the program when the controller is gone. */
void control_wait(struct control *control, struct pollfd *fds, nfds_t count, int64_t until_ns);

#endif
