/* Exchange: requests and responses, one after the other on each flow. The connecting end asks and
 * measures, the listening one answers. */
#ifndef OSMEF_EXCHANGE_H
#define OSMEF_EXCHANGE_H

#include "flow_threads.h"
#include "histogram.h"
#include "kind.h"

#include <sys/socket.h>

/* What carries the requests: the flow's own connection, or something beside it. */
enum protocol { TCP, TCP_CONNECT, UDP, ICMP };

struct exchange_params {
    struct link_params link;
    enum protocol protocol;
    int probe_port;          /* of the first flow, beside its connection; 0: any */
    double loss_threshold_s; /* a datagram that has no answer by then is lost */
    uint64_t request_size;   /* bytes */
    uint64_t response_size;  /* bytes */
    double duration_s;       /* measured, after the warm-up */
    double warmup_s;
    double interval_s; /* 0: none are told */
    double rate_per_s; /* of each flow; 0: the next request follows the response */
    double gap_s;      /* ... after this time */
};

/* Durations of exchanges. */
struct tally {
    struct histogram histogram;
    uint64_t sum_ns;
    uint64_t lost; /* had no answer */
};

/* A flow's socket beside its connection. */
struct probe {
    int fd;                       /* -1: none */
    struct sockaddr_storage peer; /* where requests go */
    socklen_t peer_size;
    /* Of ICMP. */
    bool raw; /* a socket that gives the headers, too */
    uint16_t identifier;
};

/* So many datagrams may be on their way. */
#define MAX_UNANSWERED 16384

/* One flow's exchanges. */
struct asker {
    struct tally measured; /* since the end of the warm-up; read once the flow has ended */
    struct tally response; /* at a rate: the same, each from when it was due */
    uint64_t late;         /* of these, how many had to wait for the response before them */
    uint64_t unsent;       /* due before the end, but never sent */
    int64_t last_ns;       /* when the last one of them was over */
    /* Of the interval in hand. The main thread takes one while the flow goes on with the other. */
    pthread_mutex_t mutex;
    int current;
    struct tally interval[2];
    int64_t *sent_ns; /* when datagram k was sent, at k modulo MOST_UNANSWERED; 0: it is over */
};

struct exchange {
    struct flow_threads threads;
    struct exchange_params params;
    struct asker *askers; /* the connecting end's, one a flow */
    int64_t *sent_ns;     /* of all of them */
    struct probe probes[MAX_FLOWS];
    _Atomic int refused; /* connections and datagrams at a probe's socket that are not of the job */
    _Atomic uint64_t answers[MAX_FLOWS]; /* the listening end's */
};

extern const struct kind exchange_kind;

void tally_add(struct tally *tally, int64_t ns);
void tally_merge(struct tally *tally, const struct tally *other);

/* When the requests of a flow are due. */
struct schedule {
    int64_t origin_ns;
    int64_t measured_ns; /* what is due before belongs to the warm-up */
    int64_t end_ns;      /* nothing is due from here on */
    double period_ns;    /* 0: each is due when the one before is over */
    int64_t gap_ns;
};

/* The flows take turns within a period, so that they do not all ask at once. */
struct schedule schedule_make(const struct flow_thread *thread,
                              const struct exchange_params *params);

/* When a request is due, with a period. */
int64_t schedule_due(const struct schedule *schedule, uint64_t request);

/* An exchange: when its request was due, when it was sent, and when its response was there. */
struct moments {
    int64_t due_ns;
    int64_t sent_ns;
    int64_t over_ns;
};

/* Notes one. Its time counts from when it was sent, and once more, with a period, from when it was
 * due: there a request that has to wait for the one before it counts the waiting (Tene, "How NOT
 * to Measure Latency": coordinated omission). */
void schedule_record(struct asker *asker, const struct schedule *schedule,
                     const struct moments *one, bool late);

/* One that was due and has no answer. */
void schedule_record_lost(struct asker *asker, const struct schedule *schedule, int64_t due_ns);

/* Nothing is left out: what was due before the end and never sent is counted. */
uint64_t schedule_unsent(const struct schedule *schedule, uint64_t sent);

/* The work of a flow's thread. */
bool exchange_work(struct flow_thread *thread);
/* Larger messages go through these in pieces. What comes is not kept: a round trip is timed, not
 * checked. */
#define EXCHANGE_PIECE ((size_t)64 * 1024)
extern _Thread_local unsigned char exchange_request[EXCHANGE_PIECE];
extern _Thread_local unsigned char exchange_scratch[EXCHANGE_PIECE];
/* Of a message, through the thread's descriptor. */
bool exchange_send(struct flow_thread *thread, uint64_t size);
bool exchange_receive(struct flow_thread *thread, uint64_t size);

/* The series of intervals. */
void exchange_intervals_begin(void);
int64_t exchange_intervals_tick(struct exchange *exchange);
/* Tells what is left. */
void exchange_intervals_end(struct exchange *exchange);

void exchange_write_result(const struct exchange *exchange);

#endif
