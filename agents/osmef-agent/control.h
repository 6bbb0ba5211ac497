/* The controller's commands. They are read wherever the main thread waits, so that an abort and
 * the end of standard input take effect at any moment. */
#ifndef OSMEF_CONTROL_H
#define OSMEF_CONTROL_H

#include "params.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define LINE_SIZE (16 * 1024)

struct control {
    int in;            /* -1 by hand: nobody sends commands */
    bool busy;         /* there is a job that has not ended */
    bool start;        /* it was released */
    bool abort;        /* it was aborted */
    struct params job; /* it, or the one before */
    char line[LINE_SIZE + 1];
    size_t used;
    bool too_long; /* the line in hand is skipped up to its end */
};

/* Waits until one of the descriptors is ready, a command came, or the time is up. fds[0] is
 * taken for the commands. Exits the program when the controller is gone. */
void control_wait(struct control *control, struct pollfd *fds, nfds_t count, int64_t until_ns);

#endif
