/* Exchange: requests and responses, one after the other on each flow. The connecting end asks and
 * measures, the listening one answers. */
#ifndef OSMEF_EXCHANGE_H
#define OSMEF_EXCHANGE_H

#include "crew.h"
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
#define MOST_UNANSWERED 16384

/* One flow's exchanges. */
struct asker {
    struct tally measured; /* since the end of the warm-up; read once the flow has ended */
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
    struct crew crew;
    struct exchange_params params;
    struct asker *askers; /* the connecting end's, one a flow */
    int64_t *sent_ns;     /* of all of them */
    struct probe probes[MAX_FLOWS];
    _Atomic int strangers;               /* that came to a probe's socket */
    _Atomic uint64_t answers[MAX_FLOWS]; /* the listening end's */
};

extern const struct kind exchange_kind;

void tally_add(struct tally *tally, int64_t ns);
void tally_merge(struct tally *tally, const struct tally *other);

/* The work of a flow's thread. */
bool exchange_work(struct hand *hand);
/* Of a message, through the hand's descriptor. What comes is not kept. */
bool exchange_send(struct hand *hand, uint64_t size);
bool exchange_receive(struct hand *hand, uint64_t size);

/* The series of intervals. */
void exchange_intervals_begin(void);
int64_t exchange_intervals_tick(struct exchange *exchange);
/* Tells what is left. */
void exchange_intervals_end(struct exchange *exchange);

void exchange_tell_result(const struct exchange *exchange);

#endif
