/* Exchange: requests and responses, one after the other on each flow. The connecting end asks and
 * measures, the listening one answers. */
#ifndef OSMEF_EXCHANGE_H
#define OSMEF_EXCHANGE_H

#include "crew.h"
#include "histogram.h"
#include "kind.h"

struct exchange_params {
    struct link_params link;
    uint64_t request_size;  /* bytes */
    uint64_t response_size; /* bytes */
    double duration_s;      /* measured, after the warm-up */
    double warmup_s;
    double interval_s; /* 0: none are told */
    double rate_per_s; /* of each flow; 0: the next request follows the response */
    double gap_s;      /* ... after this time */
};

/* Durations of exchanges. */
struct tally {
    struct histogram histogram;
    uint64_t sum_ns;
};

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
};

struct exchange {
    struct crew crew;
    struct exchange_params params;
    struct asker *askers;                /* the connecting end's, one a flow */
    _Atomic uint64_t answers[MAX_FLOWS]; /* the listening end's */
};

extern const struct kind exchange_kind;

void tally_add(struct tally *tally, int64_t ns);
void tally_merge(struct tally *tally, const struct tally *other);

/* The work of a flow's thread. */
bool exchange_work(struct hand *hand);

/* The series of intervals. */
void exchange_intervals_begin(void);
int64_t exchange_intervals_tick(struct exchange *exchange);
/* Tells what is left. */
void exchange_intervals_end(struct exchange *exchange);

void exchange_tell_result(const struct exchange *exchange);

#endif
