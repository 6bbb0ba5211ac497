/* Bulk transfer: one end of n TCP connections that carry as much as they can, one way or both. */
#ifndef OSMEF_BULK_H
#define OSMEF_BULK_H

#include "cpu_affinity.h"
#include "flow_threads.h"
#include "kind.h"
#include "per_flow_options.h"

enum role { SENDER, RECEIVER, ROLES };

/* How payload goes through this end: copied between its memory and the kernel's, sent without a
 * copy, or dropped by the kernel instead of being copied out. */
enum { MODE_COPY, MODE_ZEROCOPY, MODE_DISCARD, MODE_ZEROCOPY_DISCARD };
extern const char *const bulk_modes[];
extern const char *const bulk_directions[];

struct bulk_params {
    struct link_params link; /* its handshake has direction, bytes and flows of both directions */
    double duration_s;       /* with bytes: the longest that it may take after the warm-up */
    bool until_stopped;      /* duration and bytes are the most, and `stop` ends it before */
    double warmup_s;
    double interval_s;
    double active_s; /* each burst; 0: without pauses */
    double idle_s;   /* each pause between bursts */
    int threads;     /* for each way; 0: one for each flow */
    int mode;
    struct per_flow_options per_flow_options;
    struct affinity affinity;
};

struct way;

struct flow {
    /* Alone on its cache line: the flow's thread writes it at each call, the others rarely read. */
    _Alignas(CACHE_LINE) _Atomic uint64_t bytes;
    _Alignas(CACHE_LINE) struct way *way;
    int index; /* in its way */
    int connection;
    int fd;
    /* Written by the thread that serves it before it sets `has_ended`. */
    int64_t start_ns;
    int64_t end_ns;
    int bursts;
    /* Receivers: the thread's own. */
    int64_t read_ns; /* when it last took something */
    int quick_reads;
    bool rcvlowat; /* it has a receive low-water mark */
    bool finished; /* senders: nothing more is sent */
    int mptcp;     /* 1: it is MPTCP, 0: TCP, UNKNOWN */
    struct tcp_state tcp;
    atomic_bool has_ended;
    /* Written by the main thread as the warm-up ends. */
    struct tcp_state warm_tcp;
};

/* A thread and the flows it serves: every n-th of its way, n being the number of threads. */
struct worker {
    struct flow_thread *thread;
    struct way *way;
    int index; /* in its way */
    bool is_warm;
    struct cpu_time warm; /* CPU time after the warm-up counts from here */
    struct cpu_time measured_cpu;
};

/* All byte counters of a way at one moment. */
struct snapshot {
    atomic_bool taken;
    int64_t at_ns;
    uint64_t bytes[MAX_FLOWS];
};

struct interval {
    double start_s;
    double length_s;
    bool warmup;
    uint64_t bytes[MAX_FLOWS];
    struct tcp_state tcp[MAX_FLOWS]; /* senders only; `retransmits` of this interval */
};

/* What goes one way at this end: it sends all of these flows, or receives them. */
struct way {
    struct bulk *bulk;
    enum role role;
    int count; /* of flows; 0: nothing goes this way */
    struct flow *flows;
    int threads; /* as many as flows: each has its own */
    struct worker *workers;
    atomic_int begun;
    atomic_int ended;
    struct snapshot warm; /* at the end of the warm-up, if there is one */
    /* Receivers only. */
    struct snapshot all_begun;
    struct snapshot first_ended;
    const struct snapshot *common_from; /* NULL: no time at which all flows ran; to first_ended */
};

/* CPU counters since a moment. */
struct usage {
    int64_t at_ns;
    struct cpu_time process;
    struct endpoint_time endpoint;
};

/* How a transfer tells what happens in it: as events, or as lines for people. */
struct bulk;
struct bulk_view {
    void (*connected)(const struct bulk *bulk);
    void (*interval)(const struct way *way, const struct interval *interval);
};

extern const struct bulk_view bulk_event_view;

struct bulk {
    struct flow_threads threads;
    struct bulk_params params;
    const struct bulk_view *view;
    struct flow flows[MAX_FLOWS];     /* as the link numbers them */
    struct worker workers[MAX_FLOWS]; /* as the threads are numbered */
    struct way ways[ROLES];
    _Atomic int64_t deadline_ns; /* of senders */
    atomic_bool is_warm;
    struct usage measured; /* without the warm-up */
};

extern const struct kind bulk_kind;

/* Warm-up and measured part. */
static inline double bulk_sending_s(const struct bulk *bulk)
{
    return bulk->params.warmup_s + bulk->params.duration_s;
}

/* Reads a command into parameters. Returns false and says in `problem` what is wrong. */
bool bulk_read(const struct json_object *command, struct bulk_params *params, char *problem);

/* Does the whole job with these parameters, and returns its outcome, or NULL after a failure. It
 * is valid until the next job. */
const struct bulk *bulk_run(struct job *job, const struct bulk_params *params,
                            const struct bulk_view *view);

/* Appends the result's members. */
void bulk_write_result(const struct bulk *bulk);

#endif
