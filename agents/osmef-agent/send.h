/* Sending: the payload up to the deadline or the number of bytes, and then a proper end. */
#ifndef OSMEF_SEND_H
#define OSMEF_SEND_H

#include "bulk.h"

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

#endif
