/* The output of a program and what it writes to its channel: sent in events as it is read, up to a
 * limit for all streams together, and not stored. */
#ifndef OSMEF_PROGRAM_OUTPUT_H
#define OSMEF_PROGRAM_OUTPUT_H

#include "job.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define READY_LINE_SIZE 256
#define TAIL_SIZE 400
#define STREAMS 3

struct output_stream {
    const char *name;
    bool is_channel; /* each write is sent at once */
    int fd;          /* -1: it has ended */
    uint64_t bytes;
    int64_t pause_until_ns;
    char kept[READY_LINE_SIZE]; /* the last bytes: the pattern may be split between reads */
    size_t kept_size;
};

struct program_output {
    struct job *job;
    struct output_stream streams[STREAMS];
    uint64_t limit;      /* bytes of all streams */
    int64_t start_ns;    /* the origin of times in events */
    const char *pattern; /* a part of a line to wait for; "": none */
    bool matched;
    char tail[TAIL_SIZE + 1];
    size_t tail_size;
};

/* Takes the descriptors of standard output, error and channel, which the caller closes. */
void output_begin(struct program_output *output, struct job *job, const int fds[STREAMS],
                  uint64_t limit, const char *pattern);

/* Sets the descriptors to wait for, and reduces `until_ns` to the end of a pause before it. */
void output_watch(const struct program_output *output, struct pollfd fds[STREAMS],
                  int64_t *until_ns);

/* Reads once from each ready stream. The job fails when the limit is exceeded. */
void output_read(struct program_output *output, const struct pollfd fds[STREAMS]);

/* Reads what is left in the pipes. */
void output_drain(struct program_output *output);

/* The end of the output, as a part of a message. */
const char *output_tail(const struct program_output *output);

#endif
