/* A job: one side of one transfer, from its command to its result. */
#ifndef OSMEF_JOB_H
#define OSMEF_JOB_H

#include "control.h"
#include "cpu.h"
#include "params.h"
#include "tcpinfo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CACHE_LINE 64

struct failure {
    const char *kind; /* NULL: nothing failed */
    int flow;         /* -1: no particular one */
    char message[256];
};

struct job;

struct flow {
    /* Alone on its cache line: the flow's thread writes it at each call, the others rarely read. */
    _Alignas(CACHE_LINE) _Atomic uint64_t bytes;
    _Alignas(CACHE_LINE) struct job *job;
    int index;
    int fd;
    pthread_t thread;
    bool threaded;
    /* Written by the flow's thread before it sets `has_ended`. */
    int64_t start_ns;
    int64_t end_ns;
    int problem; /* errno, 0 for a proper end */
    struct cpu_time cpu;
    struct tcp_state tcp;
    atomic_bool has_ended;
};

/* All byte counters at one moment. */
struct snapshot {
    atomic_bool taken;
    int64_t at_ns;
    uint64_t bytes[MAX_FLOWS];
};

struct interval {
    double start_s;
    double length_s;
    uint64_t bytes[MAX_FLOWS];
    struct tcp_state tcp[MAX_FLOWS]; /* senders only; `retransmits` of this interval */
};

struct outcome {
    int64_t start_realtime_ns;
    double elapsed_s;
    double common_start_s; /* receivers only, as all common values */
    double common_length_s;
    struct cpu_time process;
    struct endpoint_time endpoint;
};

/* How a job tells what happens: as JSON events, or as lines for people. */
struct report {
    void (*listening)(const struct job *job);
    void (*connected)(const struct job *job);
    void (*interval)(const struct job *job, const struct interval *interval);
    void (*result)(const struct job *job);
    void (*failed)(const struct job *job);
};

struct job {
    struct params params;
    struct control *control;
    const struct report *report;
    struct failure failure;
    struct flow flows[MAX_FLOWS];
    int refused;
    int listening_port;

    int wake;              /* eventfd: a receiver's first flow has begun, or a flow has ended */
    _Atomic uint32_t gate; /* a futex(2) at which senders wait for the start */
    int64_t deadline_ns;   /* senders: written before the gate opens */
    atomic_bool cancelled;
    _Atomic int64_t start_ns; /* 0: not started */
    atomic_int begun;
    atomic_int ended;
    struct snapshot all_begun;
    struct snapshot first_ended;

    struct outcome outcome;
};

/* Does the whole job; its last report is `result` or `failed`. Returns true for a result. */
bool job_run(struct job *job, struct control *control, const struct params *params,
             const struct report *report);

/* Notes why the job failed; the first reason stands. Returns false. */
__attribute__((format(printf, 4, 5))) bool job_fail(struct job *job, const char *kind, int flow,
                                                    const char *format, ...);

/* Returns true, and fails the job, when it was aborted. */
bool job_aborted(struct job *job);

#endif
