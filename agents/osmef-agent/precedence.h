/* Going before others at a start, so that many agents of one machine start at one moment. */
#ifndef OSMEF_PRECEDENCE_H
#define OSMEF_PRECEDENCE_H

/* Has the calling thread run before all others as soon as it can run, where it may (SCHED_FIFO,
 * sched(7)). */
void precedence_take(void);

/* Makes it one of many again: before it does anything that takes long, or starts a thread. */
void precedence_give_back(void);

#endif
