/* Real-time priority at the start of a job, so that many agents on one machine start at the same
 * time. */
#ifndef OSMEF_REALTIME_PRIORITY_H
#define OSMEF_REALTIME_PRIORITY_H

/* Gives the calling thread the policy SCHED_FIFO (sched(7)), if permitted. */
void realtime_priority_take(void);

/* Restores the policy. To be called before the thread does lengthy work or starts a thread. */
void realtime_priority_drop(void);

#endif
