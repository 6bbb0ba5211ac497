/* When the requests of a flow are due, and what becomes of each. */
#ifndef OSMEF_SCHEDULE_H
#define OSMEF_SCHEDULE_H

#include "exchange.h"

struct schedule {
    int64_t origin_ns;
    int64_t measured_ns; /* what is due before belongs to the warm-up */
    int64_t end_ns;      /* nothing is due from here on */
    double period_ns;    /* 0: each is due when the one before is over */
    int64_t gap_ns;
};

/* The flows take turns within a period, so that they do not all ask at once. */
struct schedule schedule_make(const struct hand *hand, const struct exchange_params *params);

/* When a request is due, with a period. */
int64_t schedule_due(const struct schedule *schedule, uint64_t request);

/* An exchange that was due, and when it was over. */
void schedule_note(struct asker *asker, const struct schedule *schedule, int64_t due_ns,
                   int64_t over_ns, bool late);

/* One that was due and has no answer. */
void schedule_note_lost(struct asker *asker, const struct schedule *schedule, int64_t due_ns);

/* Nothing is left out: what was due before the end and never sent is counted. */
uint64_t schedule_unsent(const struct schedule *schedule, uint64_t sent);

#endif
