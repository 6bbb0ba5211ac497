/* The threads that move the data, and the moments that they mark. */
#ifndef OSMEF_FLOW_H
#define OSMEF_FLOW_H

#include "bulk.h"

/* Starts the threads of both ways, which wait at the gate. */
bool flows_start(struct bulk *bulk);

/* Lets all senders go at once, until `deadline_ns`. */
void flows_release(struct bulk *bulk, int64_t deadline_ns);

/* Lets the receivers' threads go on with what begins or has begun. */
void flows_receive(struct bulk *bulk);

/* Makes every thread leave its call soon. */
void flows_cancel(struct bulk *bulk);

void flows_join(struct bulk *bulk);

/* For the threads themselves. */

/* Marks a flow's first byte. */
void flow_begun(struct flow *flow);

/* Marks its end, with the errno of what went wrong or 0. */
void flow_ended(struct flow *flow, int problem);

/* The first `is_warm` that a thread sees parts its CPU time. */
void worker_split(struct worker *worker);

static inline bool worker_must_split(const struct worker *worker)
{
    return !worker->is_warm &&
           atomic_load_explicit(&worker->way->bulk->is_warm, memory_order_relaxed);
}

static inline bool is_cancelled(const struct bulk *bulk)
{
    return atomic_load_explicit(&bulk->cancelled, memory_order_relaxed);
}

/* Waits until the way's threads are released, or the transfer is cancelled. */
void pass_gate(struct way *way);

/* Sleeps until then, or until the transfer is cancelled. */
void pause_until(struct way *way, int64_t until_ns);

#endif
