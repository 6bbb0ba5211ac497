/* Exchange: serial requests and responses on each flow. The connecting end sends requests and
 * measures, the listening one answers. */
#ifndef OSMEF_EXCHANGE_H
#define OSMEF_EXCHANGE_H

#include "flow_threads.h"
#include "histogram.h"
#include "kind.h"

#include <sys/socket.h>

/* What carries the requests: the flow's own connection, or probes beside it. */
enum protocol { TCP, TCP_CONNECT, UDP, ICMP };

struct exchange_params {
    struct link_params link;
    enum protocol protocol;
    int probe_port;          /* of the first flow, beside its connection; 0: any */
    double loss_threshold_s; /* a datagram without an answer is lost after this time */
    uint64_t request_size;   /* bytes */
    uint64_t response_size;  /* bytes */
    double duration_s;       /* measured, after the warm-up */
    double warmup_s;
    double interval_s; /* 0: none are reported */
    double rate_per_s; /* of each flow; 0: the next request follows the response */
    double gap_s;      /* ... after this time */
};

/* Durations of exchanges. */
struct tally {
    struct histogram histogram;
    uint64_t sum_ns;
    uint64_t lost; /* without an answer */
};

/* A flow's socket for probes. */
struct probe {
    int fd;                       /* -1: none */
    struct sockaddr_storage peer; /* the destination of requests */
    socklen_t peer_size;
    /* ICMP only. */
    bool raw; /* a raw socket, which receives IP headers, too */
    uint16_t identifier;
};

/* How many datagrams may be in flight. */
#define MAX_UNANSWERED 16384

/* One flow's exchanges. */
struct requester {
    struct tally measured; /* since the end of the warm-up; read once the flow has ended */
    struct tally response; /* with a rate: the same, from the due time of each */
    uint64_t late;         /* of these, how many were sent after their due time */
    uint64_t unsent;       /* due before the end, but never sent */
    int64_t last_ns;       /* the end of the last one of them */
    /* Two tallies of intervals: the main thread reads one while the flow's thread writes the
     * other. */
    pthread_mutex_t mutex;
    int current;
    struct tally interval[2];
    int64_t *sent_ns; /* when datagram k was sent, at k modulo MAX_UNANSWERED; 0: answered */
};

struct exchange {
    struct flow_threads threads;
    struct exchange_params params;
    struct requester *requesters; /* of the connecting end, one for each flow */
    int64_t *sent_ns;     /* of all of them */
    struct probe probes[MAX_FLOWS];
    _Atomic int refused; /* connections and datagrams at a probe's socket that are not of the job */
    _Atomic uint64_t answers[MAX_FLOWS]; /* of the listening end */
};

extern const struct kind exchange_kind;

void tally_add(struct tally *tally, int64_t ns);
void tally_merge(struct tally *tally, const struct tally *other);

/* When the requests of a flow are due. */
struct schedule {
    int64_t origin_ns;
    int64_t measured_ns; /* requests that are due before belong to the warm-up */
    int64_t end_ns;      /* no request is due from here on */
    double period_ns;    /* 0: each is due when the one before has been answered */
    int64_t gap_ns;
};

/* Flows are staggered within a period, so that their requests are not simultaneous. */
struct schedule schedule_make(const struct flow_thread *thread,
                              const struct exchange_params *params);

/* The due time of a request, with a period. */
int64_t schedule_due(const struct schedule *schedule, uint64_t request);

/* The times of an exchange: when its request was due and sent, and when its response was
 * received. */
struct moments {
    int64_t due_ns;
    int64_t sent_ns;
    int64_t over_ns;
};

/* Records an exchange: its duration from when the request was sent and, with a period, also from
 * when it was due, which includes the wait for the request before it (Tene, "How NOT to Measure
 * Latency": coordinated omission). */
void schedule_record(struct requester *requester, const struct schedule *schedule,
                     const struct moments *one, bool late);

/* Records a request without an answer. */
void schedule_record_lost(struct requester *requester, const struct schedule *schedule,
                          int64_t due_ns);

/* How many requests were due before the end and not sent. */
uint64_t schedule_unsent(const struct schedule *schedule, uint64_t sent);

/* The main function of a flow's thread. */
bool exchange_work(struct flow_thread *thread);
/* Larger messages are sent and received in pieces of this size. Received data is not kept, as only
 * its time is measured. */
#define EXCHANGE_PIECE ((size_t)64 * 1024)
extern _Thread_local unsigned char exchange_request[EXCHANGE_PIECE];
extern _Thread_local unsigned char exchange_scratch[EXCHANGE_PIECE];
/* A message on the thread's descriptor. */
bool exchange_send(struct flow_thread *thread, uint64_t size);
bool exchange_receive(struct flow_thread *thread, uint64_t size);

/* The series of intervals. */
void exchange_intervals_begin(void);
int64_t exchange_intervals_tick(struct exchange *exchange);
/* Reports the last interval. */
void exchange_intervals_end(struct exchange *exchange);

void exchange_write_result(const struct exchange *exchange);

#endif
