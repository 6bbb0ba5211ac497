/* The threads of the flows: the data path, and nothing else. */
#ifndef OSMEF_FLOW_H
#define OSMEF_FLOW_H

#include "bulk.h"

/* Starts a thread for every flow: senders wait at the gate, receivers in their first read. */
bool flows_start(struct bulk *bulk);

/* Lets all senders go at once, until `deadline_ns`. */
void flows_release(struct bulk *bulk, int64_t deadline_ns);

/* Makes every thread leave its call soon. */
void flows_cancel(struct bulk *bulk);

void flows_join(struct bulk *bulk);

#endif
