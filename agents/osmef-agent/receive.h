/* Receiving: all that comes, up to the sender's end. */
#ifndef OSMEF_RECEIVE_H
#define OSMEF_RECEIVE_H

#include "bulk.h"

#include <sys/types.h>

/* Receives one flow in the calling thread, and blocks. */
void receive_flow(struct worker *worker, struct flow *flow);

/* Receives once and counts. Returns as recv() does. */
ssize_t receive_some(struct flow *flow, int flags);

/* After the sender's end (0) or a failure (-1 and errno): marks the flow's end. */
void receive_ended(struct flow *flow, ssize_t how);

#endif
