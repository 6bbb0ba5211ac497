/* The threads of a job with two ends in which every flow has one: they begin together, and the main
 * thread watches that they move. */
#ifndef OSMEF_CREW_H
#define OSMEF_CREW_H

#include "cpu.h"
#include "job.h"
#include "link.h"
#include "tcpinfo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CACHE_LINE 64

/* States of the gate. */
enum { GATE_SHUT, GATE_OPEN, GATE_CANCELLED };

struct crew;

/* The thread of one flow. */
struct hand {
    /* Alone on its cache line: the thread writes it whenever bytes have moved. */
    _Alignas(CACHE_LINE) _Atomic uint64_t moves;
    _Alignas(CACHE_LINE) struct crew *crew;
    int index;
    int fd;
    pthread_t thread;
    bool threaded;
    /* Written by the thread before it sets `has_ended`. */
    struct failure failure;
    int64_t end_ns;
    struct cpu_time cpu;
    struct tcp_state tcp;
    atomic_bool has_ended;
};

/* What a kind of job makes of a crew. */
struct trade {
    /* Gets what the threads need, once the flows are connected. Returns false and fails the job. */
    bool (*prepare)(struct crew *crew);
    /* What a thread does. Returns false after hand_fail(). */
    bool (*work)(struct hand *hand);
    /* In the main thread, from the start on: tells what is due. Returns when it wants to be called
     * again at the latest. */
    int64_t (*tick)(struct crew *crew);
};

struct crew {
    struct job *job;
    const struct trade *trade;
    struct link_params *params;
    struct link link;
    int count; /* of hands */
    struct hand hands[MAX_FLOWS];
    double patience_s; /* how long nothing may move */
    double longest_s;  /* the job has stalled when it is not over by then */

    int wake;              /* eventfd: a hand has begun or ended, or has something to tell */
    _Atomic uint32_t gate; /* a futex(2) that shuts the hands out, or in while they pause */
    _Atomic uint32_t meeting;
    atomic_int arrived;
    _Atomic int64_t start_ns; /* 0: not started */

    int64_t look_ns; /* when to look for stalled flows next */
    uint64_t seen[MAX_FLOWS];
    int64_t moved_ns; /* when some flow was last seen to have moved */

    /* Once it has run well. */
    int64_t start_realtime_ns;
    double elapsed_s;
    struct cpu_time process;
    struct endpoint_time endpoint;
};

/* Connects, starts the threads and waits for their end; gives everything back but what `prepare`
 * got. The caller has set trade, patience_s and longest_s. */
bool crew_run(struct crew *crew, struct job *job, struct link_params *params);

/* Appends the members that every result of a crew has, before and after those of its flows. */
void crew_tell_begin(const struct crew *crew);
void crew_tell_hand(const struct hand *hand);
void crew_tell_end(const struct crew *crew);

/* What follows is for the threads. */

/* Notes why the flow failed. Returns false. */
__attribute__((format(printf, 3, 4))) bool hand_fail(struct hand *hand, const char *kind,
                                                     const char *format, ...);
bool hand_is_cancelled(const struct hand *hand);

bool hand_send(struct hand *hand, const void *data, size_t size);
/* Returns the bytes read, 0 when the peer has ended the flow, or -1 after hand_fail(). */
ssize_t hand_receive_some(struct hand *hand, void *data, size_t size);
/* All of it; that the peer ends the flow before is a failure. */
bool hand_receive(struct hand *hand, void *data, size_t size);
/* Fails for what errno says of the connection. */
bool hand_broken(struct hand *hand, int why);
/* Notes that bytes have moved. */
void hand_moved(struct hand *hand);

/* Ends the flow and waits until the peer has done so too. */
bool hand_end(struct hand *hand);
/* Waits for the peer's end and answers it. */
bool hand_end_too(struct hand *hand);

/* Waits until a moment, to the microsecond. Returns false when the job was cancelled. */
bool hand_wait_until(struct hand *hand, int64_t at_ns);

/* Waits for all others; the last to come calls `decide`, if there is one, while they wait. Returns
 * false when the job was cancelled. */
bool hand_meet(struct hand *hand, void (*decide)(struct crew *crew));

/* Has the main thread call `tick` soon. */
void crew_wake(const struct crew *crew);

#endif
