/* The threads of a job with two ends, one for each flow: they start at the same time, and the main
 * thread checks that their flows make progress. */
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
/* Seconds by which flows may end before the time that was agreed. A receiver may start late, since
 * first segments may be lost and CPUs busy; earlier ends mean that the sender stopped too early. */
#define EARLY_SLACK_S 2.0

struct flow_threads;

/* States of the start gate. A thread that waits for one of them also continues at any later one. */
enum { GATE_CLOSED, GATE_SENDERS, GATE_OPEN, GATE_CANCELLED };

/* A thread: of one flow, or of several if the job has fewer threads than flows. */
struct flow_thread {
    /* On a cache line of its own: the thread writes it whenever bytes have moved. */
    _Alignas(CACHE_LINE) _Atomic uint64_t moves;
    _Alignas(CACHE_LINE) struct flow_threads *threads;
    int index;
    int flow; /* the one that a failure is reported for: its own, or the last one that it served */
    int fd;   /* of its flow */
    pthread_t posix;
    bool threaded;
    /* Written by the thread before it sets `has_ended`. */
    struct failure failure;
    int64_t end_ns;      /* when the last bytes moved */
    struct cpu_time cpu; /* while it runs: at its start */
    struct tcp_state tcp;
    atomic_bool has_ended;
};

/* The functions of a kind of job. */
struct flow_work {
    /* Allocates what the threads need, once the flows are connected, and may reduce their number.
     * Returns false when the job has failed. */
    bool (*prepare)(struct flow_threads *threads);
    /* The main function of a thread. Returns false after thread_fail(). */
    bool (*run)(struct flow_thread *thread);
    /* In the main thread, from the start on: reports what is due. Returns the time of the next call
     * at the latest. */
    int64_t (*tick)(struct flow_threads *threads);
    /* The byte by which the connecting end starts the listening one; 0: the listening end never
     * sends first. */
    char go;
    /* `go` is sent to an end that only receives, too. Else that end starts with the first byte. */
    bool always_go;
    /* The following are optional, and called in the main thread. */
    /* Reports that the flows are connected, in place of the job's report. */
    void (*connected)(struct flow_threads *threads);
    /* At the start, while the gate is still closed. */
    void (*begin)(struct flow_threads *threads);
    /* Waits until then for the first bytes of flows, and receives them while the gate is closed to
     * receivers. Returns false when all flows have theirs, or when the job has failed. */
    bool (*gather)(struct flow_threads *threads, int64_t until_ns);
    /* The progress of a flow, or FLOW_ENDED; without this function its thread's `moves`. */
    int64_t (*progress)(const struct flow_threads *threads, int flow);
    /* When all threads have ended without an error, before the CPU time of the process is read. */
    void (*end)(struct flow_threads *threads);
};
#define FLOW_ENDED INT64_MIN

struct flow_threads {
    struct job *job;
    const struct flow_work *work;
    struct link_params *params;
    struct link link;
    int forward; /* the first so many flows go from the connecting end to the listening one */
    int count;   /* of threads */
    struct flow_thread of[MAX_FLOWS];
    double stall_limit_s; /* the job fails when no byte has moved for so long */
    double total_limit_s; /* the job fails when it has not ended by then */

    int wake; /* eventfd: a thread has started or ended, or has something to report */
    _Atomic uint32_t start_gate; /* futex(2): GATE_CLOSED to GATE_CANCELLED */
    _Atomic uint32_t barrier_phase;
    atomic_int barrier_arrived;
    _Atomic int64_t start_ns; /* 0: not started */

    int64_t check_ns; /* when to check for stalled flows next */
    int64_t seen[MAX_FLOWS];
    int64_t moved_ns[2]; /* when some flow last made progress, forward and back */

    /* Once it has run without an error. */
    int64_t start_realtime_ns;
    int64_t end_ns;
    double elapsed_s;
    bool counted; /* the following have been read */
    struct cpu_time process;
    struct endpoint_time endpoint;
};

/* Connects, starts the threads and waits for their end; releases everything but what `prepare`
 * allocated. The caller has set work, stall_limit_s and total_limit_s. */
bool threads_run(struct flow_threads *threads, struct job *job, struct link_params *params);

/* Appends the members that the result of every such job has, before and after those of its
 * flows. */
void threads_write_begin(const struct flow_threads *threads);
void threads_write_one(const struct flow_thread *thread);
void threads_write_end(const struct flow_threads *threads);

/* Whether this end sends first. */
static inline bool threads_send(const struct flow_threads *threads)
{
    const enum direction direction = threads->params->handshake.direction;
    return direction == BOTH || (direction == REVERSE) == threads->params->listens;
}

/* Ends the count of CPU time; without this call it ends with the threads. */
void threads_count_use(struct flow_threads *threads);

/* Sets the sockets' options for messages: no message waits for the acknowledgement of the one
 * before, and a blocked send() returns soon when the job is cancelled. */
void threads_set_messages(const struct flow_threads *threads);

static inline bool threads_are_cancelled(const struct flow_threads *threads)
{
    return atomic_load_explicit(&threads->start_gate, memory_order_relaxed) == GATE_CANCELLED;
}

/* Intervals of a job. Deadlines are absolute, so that they don't drift. */
struct series {
    int64_t count; /* of deadlines so far */
    int64_t next_ns;
    int64_t last_ns; /* when the last interval ended */
};

/* Sets the next deadline, in a part of the job that begins at `from_ns`. Within half an
 * interval of the part's end, and behind it, the next deadline is `otherwise_ns`: the last interval
 * includes the rest, so that none is very short. */
void series_advance(struct series *series, int64_t from_ns, double interval_s, double length_s,
                    int64_t otherwise_ns);

/* As pages_map(). Fails the job when it returns NULL. */
void *threads_map(const struct flow_threads *threads, size_t size, int flags);

/* The following functions are for the threads. */

/* Waits until the start gate has at least this state. Returns false when the job was cancelled. */
bool thread_wait_gate(struct flow_thread *thread, uint32_t least);

/* Sleeps until then, or until the job is cancelled. */
void threads_pause(struct flow_threads *threads, int64_t until_ns);

/* Records why the flow failed. Returns false. */
__attribute__((format(printf, 3, 4))) bool thread_fail(struct flow_thread *thread, const char *kind,
                                                       const char *format, ...);
static inline bool thread_is_cancelled(const struct flow_thread *thread)
{
    return threads_are_cancelled(thread->threads);
}

bool thread_send(struct flow_thread *thread, const void *data, size_t size);
/* Returns the bytes read, 0 when the peer has ended the flow, or -1 after thread_fail(). */
ssize_t thread_receive_some(struct flow_thread *thread, void *data, size_t size);
/* Receives all of it. The end of the flow before that is a failure. */
bool thread_receive(struct flow_thread *thread, void *data, size_t size);
/* Fails with the errno of a call on the connection. */
bool thread_broken(struct flow_thread *thread, int why);
/* Records that bytes have moved. */
void thread_moved(struct flow_thread *thread);

/* Records that the thread's flow has ended without an error. */
void thread_ended(struct flow_thread *thread);
/* Ends the flow and waits for the end of the peer. */
bool thread_end(struct flow_thread *thread);
/* Waits for the end of the peer, and then ends the flow. */
bool thread_end_too(struct flow_thread *thread);

/* Waits until then, to the microsecond. Returns false when the job was cancelled. */
bool thread_wait_until(struct flow_thread *thread, int64_t at_ns);

/* A barrier of all threads of the job. The last one to arrive calls `last`, which may be NULL,
 * before the others continue. Returns false when the job was cancelled. */
bool thread_barrier_wait(struct flow_thread *thread, void (*last)(struct flow_threads *threads));

/* Wakes the main thread, which calls `tick`. */
static inline void threads_wake(const struct flow_threads *threads)
{
    eventfd_write(threads->wake, 1);
}

#endif
