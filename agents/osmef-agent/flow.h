/* What threads do on the flows of a transfer: the payload up to the deadline or the number of
 * bytes, and then a proper end; at the other end all that comes. */
#ifndef OSMEF_FLOW_H
#define OSMEF_FLOW_H

#include "bulk.h"

#include <sys/types.h>

/* Marks a flow's end, and fails the thread for the errno of what went wrong, unless that is 0. */
void flow_ended(struct flow_thread *thread, struct flow *flow, int problem);

/* The first `is_warm` that a thread sees parts its CPU time. */
void worker_split(struct worker *worker);

static inline bool worker_must_split(const struct worker *worker)
{
    return !worker->is_warm &&
           atomic_load_explicit(&worker->way->bulk->is_warm, memory_order_relaxed);
}

/* Sets the socket's options for sending. */
void send_prepare(struct flow *flow);

/* The first bytes of all flows leave from one thread. With many flows on few CPUs the last thread
 * gets its turn a time slice of each other one later, and so would begin late. */
void send_first(struct flow *flow);

/* Sends one flow in the calling thread, and blocks. */
void send_flow(struct worker *worker, struct flow *flow);

/* What all senders are to do now, as far as their bytes are not sent. */
enum todo { SEND, REST, FINISH };
struct turn {
    enum todo todo;
    int64_t until_ns; /* REST */
    int burst;        /* SEND: its number, from 1 */
};
struct turn send_turn(const struct bulk *bulk, int64_t now);

/* Whether all the bytes that were asked for are sent. */
bool send_is_complete(const struct flow *flow);

/* Sends once. Returns 0, or the errno of what went wrong. */
int send_some(struct flow *flow, int burst);

/* Ends the sending. Returns 0, or an errno: ETIME when not all bytes are sent. */
int send_shutdown(struct flow *flow);

/* Takes the receiver's answer to that. Returns 0 or an errno. */
int send_confirm(const struct flow *flow);

/* Receives one flow in the calling thread, and blocks. */
void receive_flow(struct worker *worker, struct flow *flow);

/* Receives once and counts. Returns as recv() does. */
ssize_t receive_some(struct flow *flow, int flags);

/* After the sender's end (0) or a failure (-1 and errno): marks the flow's end. */
void receive_ended(struct flow_thread *thread, struct flow *flow, ssize_t how);

#endif
