/* Bulk transfer: one end of n TCP connections that carry as much as they can. */
#ifndef OSMEF_BULK_H
#define OSMEF_BULK_H

#include "cpu.h"
#include "kind.h"
#include "link.h"
#include "tcpinfo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CACHE_LINE 64

enum role { SENDER, RECEIVER };

struct bulk_params {
    struct link_params link;
    double duration_s;
    double interval_s;
};

struct bulk;

struct flow {
    /* Alone on its cache line: the flow's thread writes it at each call, the others rarely read. */
    _Alignas(CACHE_LINE) _Atomic uint64_t bytes;
    _Alignas(CACHE_LINE) struct bulk *bulk;
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

/* How a transfer tells what happens in it: as events, or as lines for people. */
struct bulk_view {
    void (*connected)(const struct bulk *bulk);
    void (*interval)(const struct bulk *bulk, const struct interval *interval);
};

struct bulk {
    struct job *job;
    struct bulk_params params;
    enum role role;
    int count; /* of flows */
    const struct bulk_view *view;
    struct link link;
    struct flow flows[MAX_FLOWS];

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

extern const struct kind bulk_kind;

/* Does the whole job with these parameters, and returns its outcome, or NULL after a failure. It
 * is valid until the next job. */
const struct bulk *bulk_run(struct job *job, const struct bulk_params *params,
                            const struct bulk_view *view);

#endif
