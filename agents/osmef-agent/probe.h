/* Probes: requests beside a flow's connection, each with a connection of its own, or in a datagram
 * of UDP or ICMP. The connection of the flow carries the beginning and the end. A probe begins with 0-7
 * the cookie's first half, 8-9 flow, 10-15 its number, big endian. */
#ifndef OSMEF_PROBE_H
#define OSMEF_PROBE_H

#include "exchange.h"

#define PROBE_HEADER_SIZE 16
/* The largest payload of UDP or ICMP over IPv4. */
#define PROBE_MAX_BYTES 65507
#define PROBE_GO 'G'

static inline bool protocol_is_datagrams(enum protocol protocol)
{
    return protocol == UDP || protocol == ICMP;
}

/* In the main thread, once the flows are connected: opens the socket of each flow, and sends its
 * port to the connecting end. Returns false and fails the job. */
bool probe_open(struct exchange *exchange);
void probe_close(struct exchange *exchange);

void probe_header_write(const struct flow_thread *thread, uint64_t number, unsigned char *request);
/* Returns false for a request of another flow. */
bool probe_header_read(const struct flow_thread *thread, const unsigned char *request, ssize_t size,
                       uint64_t *number);

/* The following functions are for the threads. */

/* Sends or receives the byte that begins the requests. */
bool probe_begin(struct flow_thread *thread);

/* Whether the peer has ended or reset the flow: 1, -1 after thread_fail(), or 0. */
int probe_check_flow(struct flow_thread *thread);

/* Opens a socket for the next request; connects it; closes it, if it is open. In between it is the
 * thread's descriptor, in place of the flow's. */
bool probe_connection(struct flow_thread *thread, const struct exchange *exchange);
bool probe_connect(struct flow_thread *thread, const struct exchange *exchange);
void probe_disconnect(struct flow_thread *thread);

bool probe_answer_connections(struct flow_thread *thread, struct exchange *exchange);

bool probe_request_datagrams(struct flow_thread *thread, struct exchange *exchange,
                             const struct schedule *schedule);
bool probe_answer_datagrams(struct flow_thread *thread, struct exchange *exchange);

#endif
