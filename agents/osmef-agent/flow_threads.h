/* The threads of a job with two ends in which every flow has one: they begin together, and the main
 * thread watches that they move. */
#ifndef OSMEF_FLOW_THREADS_H
#define OSMEF_FLOW_THREADS_H

#include "cpu.h"
#include "job.h"
#include "link.h"
#include "tcpinfo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/types.h>

#define CACHE_LINE 64
/* A sender that has been killed resets its flows; by this the other end finds one that ended them too
 * early. First segments may be lost and CPUs busy, so its time may begin that much later: seconds. */
#define EARLY_SLACK_S 2.0

struct flow_threads;

/* How far threads may go: who waits for one of these goes on with any later one, too. */
enum { BARRIER_SHUT, BARRIER_SENDERS, BARRIER_OPEN, BARRIER_CANCELLED };

/* A thread: of one flow, unless the job has fewer threads. */
struct flow_thread {
    /* Alone on its cache line: the thread writes it whenever bytes have moved. */
    _Alignas(CACHE_LINE) _Atomic uint64_t moves;
    _Alignas(CACHE_LINE) struct flow_threads *threads;
    int index;
    int flow; /* the one that it fails for: its own, or the last one at which it was */
    int fd;   /* of its flow */
    pthread_t posix;
    bool threaded;
    /* Written by the thread before it sets `has_ended`. */
    struct failure failure;
    int64_t end_ns;      /* of what it has moved */
    struct cpu_time cpu; /* while it runs: at its begin */
    struct tcp_state tcp;
    atomic_bool has_ended;
};

/* What a kind of job has its threads do. */
struct flow_work {
    /* Gets what the threads need, once the flows are connected, and may want fewer of them. Returns
     * false and fails the job. */
    bool (*prepare)(struct flow_threads *threads);
    /* What a thread does, from its creation on. Returns false after thread_fail(). */
    bool (*run)(struct flow_thread *thread);
    /* In the main thread, from the start on: tells what is due. Returns when it wants to be called
     * again at the latest. */
    int64_t (*tick)(struct flow_threads *threads);
    /* What the connecting end says for the listening one to send; 0: that one never does at first.
     */
    char go;
    /* It is said to an end that only receives, too. Else that one begins with its first byte. */
    bool always_go;
    /* All that follows is optional, and called in the main thread. */
    /* Tells that the flows are connected; else the job's report does. */
    void (*connected)(struct flow_threads *threads);
    /* At the start, with the threads still behind the barrier. */
    void (*begin)(struct flow_threads *threads);
    /* Waits until a moment for the first bytes of flows, and takes them before receivers pass the
     * barrier. Returns false when no flow lacks them, or after it has failed the job. */
    bool (*gather)(struct flow_threads *threads, int64_t until_ns);
    /* How far a flow has come, or FLOW_ENDED; else this is in its thread's `moves`. */
    int64_t (*progress)(const struct flow_threads *threads, int flow);
    /* When all threads have ended well, before their process's use of the CPU is counted. */
    void (*end)(struct flow_threads *threads);
};
#define FLOW_ENDED INT64_MIN

struct flow_threads {
    struct job *job;
    const struct flow_work *work;
    struct link_params *params;
    struct link link;
    int forward; /* how many flows go from the connecting end to the listening one; then the others
                  */
    int count;   /* of threads */
    struct flow_thread of[MAX_FLOWS];
    double stall_limit_s; /* the job fails when no byte has moved for so long */
    double total_limit_s; /* the job fails when it has not ended by then */

    int wake;                 /* eventfd: a thread has begun or ended, or has something to tell */
    _Atomic uint32_t barrier; /* a futex(2) */
    _Atomic uint32_t meeting;
    atomic_int arrived;
    _Atomic int64_t start_ns; /* 0: not started */

    int64_t look_ns; /* when to look for stalled flows next */
    int64_t seen[MAX_FLOWS];
    int64_t moved_ns[2]; /* when some flow was last seen to have moved, forward and back */

    /* Once it has run well. */
    int64_t start_realtime_ns;
    int64_t end_ns;
    double elapsed_s;
    bool counted; /* these are: */
    struct cpu_time process;
    struct endpoint_time endpoint;
};

/* Connects, starts the threads and waits for their end; gives everything back but what `prepare`
 * got. The caller has set work, stall_limit_s and total_limit_s. */
bool threads_run(struct flow_threads *threads, struct job *job, struct link_params *params);

/* Appends the members that the result of every such job has, before and after those of its flows.
 */
void threads_tell_begin(const struct flow_threads *threads);
void threads_tell_one(const struct flow_thread *thread);
void threads_tell_end(const struct flow_threads *threads);

/* Whether this end sends at first. */
static inline bool threads_send(const struct flow_threads *threads)
{
    const enum direction direction = threads->params->opening.direction;
    return direction == BOTH || (direction == REVERSE) == threads->params->listens;
}

/* Counts the use of the CPU up to now, unless that has been done: without it, up to the end. */
void threads_count_use(struct flow_threads *threads);

/* Flows that carry messages: none is to wait for the acknowledgement of the one before, and who
 * waits for room sees soon that the job was cancelled. */
void threads_set_messages(const struct flow_threads *threads);

static inline bool threads_are_cancelled(const struct flow_threads *threads)
{
    return atomic_load_explicit(&threads->barrier, memory_order_relaxed) == BARRIER_CANCELLED;
}

/* Intervals of a job. Deadlines are absolute, so that they don't drift. */
struct series {
    int64_t count; /* of deadlines so far */
    int64_t next_ns;
    int64_t last_ns; /* when the last interval ended */
};

/* Sets the next deadline, in a part of the job that begins at `from_ns`. None is within half an
 * interval of the part's end or behind it, where `otherwise_ns` is the next: the interval before it
 * takes in what remains, else it would be a splinter. */
void series_advance(struct series *series, int64_t from_ns, double interval_s, double length_s,
                    int64_t otherwise_ns);

/* As pages_map(); fails the job where it returns NULL. */
void *threads_map(const struct flow_threads *threads, size_t size, int flags);

/* What follows is for the threads. */

/* Waits as long as the barrier is before `least`. Returns false when the job was cancelled. */
bool thread_pass(struct flow_thread *thread, uint32_t least);

/* Sleeps until then, or until the job is cancelled. */
void threads_pause(struct flow_threads *threads, int64_t until_ns);

/* Notes why the flow failed. Returns false. */
__attribute__((format(printf, 3, 4))) bool thread_fail(struct flow_thread *thread, const char *kind,
                                                       const char *format, ...);
static inline bool thread_is_cancelled(const struct flow_thread *thread)
{
    return threads_are_cancelled(thread->threads);
}

bool thread_send(struct flow_thread *thread, const void *data, size_t size);
/* Returns the bytes read, 0 when the peer has ended the flow, or -1 after thread_fail(). */
ssize_t thread_receive_some(struct flow_thread *thread, void *data, size_t size);
/* All of it; that the peer ends the flow before is a failure. */
bool thread_receive(struct flow_thread *thread, void *data, size_t size);
/* Fails for what errno says of the connection. */
bool thread_broken(struct flow_thread *thread, int why);
/* Notes that bytes have moved. */
void thread_moved(struct flow_thread *thread);

/* Notes that the thread's flow has ended well. */
void thread_ended(struct flow_thread *thread);
/* Ends the flow and waits until the peer has done so too. */
bool thread_end(struct flow_thread *thread);
/* Waits for the peer's end and answers it. */
bool thread_end_too(struct flow_thread *thread);

/* Waits until a moment, to the microsecond. Returns false when the job was cancelled. */
bool thread_wait_until(struct flow_thread *thread, int64_t at_ns);

/* Waits for all others; the last to come calls `decide`, if there is one, while they wait. Returns
 * false when the job was cancelled. */
bool thread_meet(struct flow_thread *thread, void (*decide)(struct flow_threads *threads));

/* Has the main thread call `tick` soon. */
static inline void threads_wake(const struct flow_threads *threads)
{
    eventfd_write(threads->wake, 1);
}

#endif
