/* The work of threads on the flows of a transfer: a sender sends payload up to the deadline or the
 * number of bytes, and ends the flow; a receiver receives all of it. */
#ifndef OSMEF_FLOW_H
#define OSMEF_FLOW_H

#include "bulk.h"

#include <sys/types.h>

/* Records a flow's end, and fails the thread with this errno, unless it is 0. */
void flow_ended(struct flow_thread *thread, struct flow *flow, int problem);

/* Records the thread's CPU time at the end of the warm-up, when it first sees `is_warm`. */
void worker_split(struct worker *worker);

static inline bool worker_must_split(const struct worker *worker)
{
    return !worker->is_warm &&
           atomic_load_explicit(&worker->way->bulk->is_warm, memory_order_relaxed);
}

/* Sets the socket's options for sending. */
void send_prepare(struct flow *flow);

/* One thread sends the first bytes of all flows. With many flows on few CPUs the last of their own
 * threads would run, and begin, later by a time slice of each other one. */
void send_first(struct flow *flow);

/* Sends one flow in the calling thread. Blocks. */
void send_flow(struct worker *worker, struct flow *flow);

/* What all senders are to do now, if they have bytes left. */
enum todo { SEND, REST, FINISH };
struct turn {
    enum todo todo;
    int64_t until_ns; /* REST */
    int burst;        /* SEND: the number of the burst, from 1 */
};
struct turn send_turn(const struct bulk *bulk, int64_t now);

/* Whether all requested bytes have been sent. */
bool send_is_complete(const struct flow *flow);

/* Sends once. Returns 0 or an errno. */
int send_some(struct flow *flow, int burst);

/* Ends the sending. Returns 0, or an errno: ETIME when not all bytes are sent. */
int send_shutdown(struct flow *flow);

/* Waits for the receiver's answer to that. Returns 0 or an errno. */
int send_confirm(const struct flow *flow);

/* Receives one flow in the calling thread. Blocks. */
void receive_flow(struct worker *worker, struct flow *flow);

/* Receives once and counts the bytes. Returns as recv(). */
ssize_t receive_some(struct flow *flow, int flags);

/* Records a flow's end, after that of the sender (0) or a failure (-1 and errno). */
void receive_ended(struct flow_thread *thread, struct flow *flow, ssize_t how);

#endif
