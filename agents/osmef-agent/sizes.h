/* Size sweep: messages of increasing sizes between both ends, as in NetPIPE. The connecting end
 * determines the batches of messages, and announces each one to the listening end. */
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
    bool check; /* received messages are compared with what was sent */
    double point_s;
    int trials;
    int least;         /* minimum of repetitions of a trial */
    double duration_s; /* a size that would end later is not begun */
};

/* Messages of one size. */
struct batch {
    uint64_t size; /* 0: the sweep is over */
    uint64_t repetitions;
    uint32_t number; /* from 0 */
};

/* Seconds for a message, over the trials of a size. */
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

/* The state of one flow. */
struct mover {
    unsigned char *out;
    unsigned char *in;
    uint64_t messages; /* in both directions */
    double batch_s;    /* the connecting end's last batch, per repetition */
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
    /* Of the connecting end. `spreads` has the flows of each point in succession. */
    struct point points[MAX_SIZES];
    struct spread *spreads;
    atomic_int done; /* points */
    bool complete;
    struct batch batch;
};

extern const struct kind sizes_kind;

/* The main function of a flow's thread. */
bool sizes_work(struct flow_thread *thread);

/* Determines the next batch from how long the last one took. */
void sizes_schedule_begin(void);
void sizes_schedule_next(struct flow_threads *threads);

#endif
