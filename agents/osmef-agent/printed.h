/* What a program prints, and what it says on its channel: told in events as it comes, bounded in
 * all, never kept. */
#ifndef OSMEF_PRINTED_H
#define OSMEF_PRINTED_H

#include "job.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define READY_LINE_SIZE 256
#define TAIL_SIZE 400
#define STREAMS 3

struct stream {
    const char *name;
    bool talks; /* somebody waits for an answer: it is a channel */
    int fd;     /* -1: it has ended */
    uint64_t bytes;
    int64_t rest_until_ns;
    char kept[READY_LINE_SIZE]; /* the last bytes: the awaited ones may come in pieces */
    size_t kept_size;
};

struct printed {
    struct job *job;
    struct stream streams[STREAMS];
    uint64_t most;       /* bytes of all */
    int64_t start_ns;    /* what times are told from */
    const char *awaited; /* a part of a line; "": nothing */
    bool seen;
    char tail[TAIL_SIZE + 1];
    size_t tail_size;
};

/* Begins with the descriptors of standard output, error and channel, which stay the caller's. */
void printed_begin(struct printed *printed, struct job *job, const int fds[STREAMS], uint64_t most,
                   const char *awaited);

/* Sets what to wait for, and makes the moment earlier where it has to. */
void printed_watch(const struct printed *printed, struct pollfd fds[STREAMS], int64_t *until_ns);

/* Tells what has come. The job fails when it is too much. */
void printed_take(struct printed *printed, const struct pollfd fds[STREAMS]);

/* Tells what is in the pipes still. */
void printed_drain(struct printed *printed);

/* The end of what it printed, as a part of a message. */
const char *printed_tail(const struct printed *printed);

#endif
