/* The threads of the flows: the data path, and nothing else. */
#ifndef OSMEF_FLOW_H
#define OSMEF_FLOW_H

#include "job.h"

/* Starts a thread for every flow: senders wait at the gate, receivers in their first read. */
bool flows_start(struct job *job);

/* Lets all senders go at once, until `deadline_ns`. */
void flows_release(struct job *job, int64_t deadline_ns);

/* Makes every thread leave its call soon. */
void flows_cancel(struct job *job);

void flows_join(struct job *job);

#endif
