/* Bulk transfer: one end of n TCP connections that carry as much data as they can, in one direction
 * or both. */
#ifndef OSMEF_BULK_H
#define OSMEF_BULK_H

#include "cpu_affinity.h"
#include "flow_threads.h"
#include "kind.h"
#include "per_flow_options.h"

enum role { SENDER, RECEIVER, ROLES };

/* How payload passes through this end: with a copy, sent without a copy, or dropped by the kernel
 * without a copy to user space. */
enum { MODE_COPY, MODE_ZEROCOPY, MODE_DISCARD, MODE_ZEROCOPY_DISCARD };
extern const char *const bulk_modes[];
extern const char *const bulk_directions[];

struct bulk_params {
    struct link_params link; /* its handshake has direction, bytes and flows of both directions */
    double duration_s;       /* with bytes: the longest that it may take after the warm-up */
    bool until_stopped; /* `stop` ends it before the duration and the bytes, which are limits */
    double warmup_s;
    double interval_s;
    double active_s; /* each burst; 0: without pauses */
    double idle_s;   /* each pause between bursts */
    int threads;     /* for each direction; 0: one for each flow */
    int mode;
    struct per_flow_options per_flow_options;
    struct affinity affinity;
};

struct way;

struct flow {
    /* On a cache line of its own: the flow's thread writes it at each call, other threads rarely
     * read it. */
    _Alignas(CACHE_LINE) _Atomic uint64_t bytes;
    _Alignas(CACHE_LINE) struct way *way;
    int index; /* among those of its direction */
    int connection;
    int fd;
    /* Written by the thread that serves it before it sets `has_ended`. */
    int64_t start_ns;
    int64_t end_ns;
    int bursts;
    /* Receivers only, used by the thread alone. */
    int64_t read_ns; /* the time of the last read */
    int quick_reads;
    bool rcvlowat; /* it has a receive low-water mark */
    bool finished; /* senders: nothing more is sent */
    int mptcp;     /* 1: it is MPTCP, 0: TCP, UNKNOWN */
    struct tcp_state tcp;
    atomic_bool has_ended;
    /* Written by the main thread as the warm-up ends. */
    struct tcp_state warm_tcp;
};

/* A thread and the flows that it serves: every n-th of its direction, with n threads. */
struct worker {
    struct flow_thread *thread;
    struct way *way;
    int index; /* among those of its direction */
    bool is_warm;
    struct cpu_time warm; /* CPU time after the warm-up counts from here */
    struct cpu_time measured_cpu;
};

/* The byte counters of all flows of a direction at one time. */
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

/* One direction at this end, which either sends all of these flows or receives them. */
struct way {
    struct bulk *bulk;
    enum role role;
    int count; /* of flows; 0: no data in this direction */
    struct flow *flows;
    int threads; /* the number of flows: one for each */
    struct worker *workers;
    atomic_int begun;
    atomic_int ended;
    struct snapshot warm; /* at the end of the warm-up */
    /* Receivers only. */
    struct snapshot all_begun;
    struct snapshot first_ended;
    const struct snapshot *common_from; /* all flows ran from here to first_ended; NULL: never */
};

/* CPU counters from a time on. */
struct usage {
    int64_t at_ns;
    struct cpu_time process;
    struct endpoint_time endpoint;
};

/* The output of a transfer: as events, or as text lines. */
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
    struct flow flows[MAX_FLOWS];     /* in the order of the link's */
    struct worker workers[MAX_FLOWS]; /* in the order of the threads */
    struct way ways[ROLES];
    _Atomic int64_t deadline_ns; /* of senders */
    atomic_bool is_warm;
    struct usage measured; /* without the warm-up */
};

extern const struct kind bulk_kind;

/* The duration of the warm-up and the measured part. */
static inline double bulk_sending_s(const struct bulk *bulk)
{
    return bulk->params.warmup_s + bulk->params.duration_s;
}

/* Reads a command into parameters. Returns false with what is wrong in `problem`. */
bool bulk_read(const struct json_object *command, struct bulk_params *params, char *problem);

/* Runs a whole job with these parameters. Returns its result, or NULL after a failure. It is valid
 * until the next job. */
const struct bulk *bulk_run(struct job *job, const struct bulk_params *params,
                            const struct bulk_view *view);

/* Appends the result's members. */
void bulk_write_result(const struct bulk *bulk);

#endif
