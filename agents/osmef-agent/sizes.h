/* Size sweep: messages of growing sizes between both ends, as NetPIPE does. The connecting end
 * leads: before each batch of messages it tells the listening end what comes. */
#ifndef OSMEF_SIZES_H
#define OSMEF_SIZES_H

#include "flow_threads.h"
#include "kind.h"
#include "sizes_plan.h"

#define MAX_TRIALS 31

enum sizes_mode { PINGPONG, STREAM, SWAP };

struct sizes_params {
    struct link_params link;
    uint64_t min_size; /* bytes */
    uint64_t max_size;
    uint64_t perturbation;
    int mode;
    bool check; /* what arrives is compared with what was sent */
    double point_s;
    int trials;
    int least;         /* repetitions of a trial */
    double duration_s; /* no size is begun that would end later */
};

/* Messages of one size, one after the other. */
struct batch {
    uint64_t size; /* 0: the sweep is over */
    uint64_t repetitions;
    uint32_t number; /* counts up from 0 */
};

/* Seconds that a message took, over the trials of a size. */
struct spread {
    double min_s;
    double median_s;
    double max_s;
};

struct point {
    uint64_t size;
    uint64_t repetitions; /* of all trials */
    int trials;
    double slowest_s; /* of a repetition, on the slowest flow of each trial: the median trial */
};

/* One flow's part in the sweep. */
struct mover {
    unsigned char *out;
    unsigned char *in;
    uint64_t messages; /* so far, both ways */
    double batch_s;    /* the connecting end's last batch, for each repetition */
    double trials_s[MAX_TRIALS];
};

struct sizes {
    struct flow_threads threads;
    struct sizes_params params;
    uint64_t plan[MAX_SIZES];
    int planned;
    unsigned char *memory;
    size_t memory_size;
    struct mover movers[MAX_FLOWS];
    /* The connecting end's. Flow by flow within a point. */
    struct point points[MAX_SIZES];
    struct spread *spreads;
    atomic_int done; /* points */
    bool complete;
    struct batch batch;
};

extern const struct kind sizes_kind;

/* The work of a flow's thread. */
bool sizes_work(struct flow_thread *thread);

/* Decides on the next batch, from how long the last one took all flows. */
void sizes_schedule_begin(void);
void sizes_schedule_next(struct flow_threads *threads);

#endif
