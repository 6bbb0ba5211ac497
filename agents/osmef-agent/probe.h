/* Requests beside a flow's connection: each with a connection of its own, or in a datagram of UDP
 * or ICMP. The connection of the flow tells when they begin and end.
 *
 * Such a request begins with 0-7 the cookie's first half, 8-9 flow, 10-15 its number, big endian.
 */
#ifndef OSMEF_PROBE_H
#define OSMEF_PROBE_H

#include "exchange.h"

#define PROBE_HEADER_SIZE 16
/* What IPv4 carries behind its own header and that of UDP or ICMP. */
#define PROBE_MOST_BYTES 65507
#define PROBE_GO 'G'

static inline bool protocol_is_datagrams(enum protocol protocol)
{
    return protocol == UDP || protocol == ICMP;
}

/* In the main thread, once the flows are connected: opens what each needs beside its connection,
 * and tells the connecting end where that is. Returns false and fails the job. */
bool probe_open(struct exchange *exchange);
void probe_close(struct exchange *exchange);

void probe_header_write(const struct flow_thread *thread, uint64_t number, unsigned char *request);
/* Returns false for one that is not of this flow. */
bool probe_header_read(const struct flow_thread *thread, const unsigned char *request, ssize_t size,
                       uint64_t *number);

/* What follows is for the threads. */

/* Says, or hears, that requests begin. */
bool probe_begin(struct flow_thread *thread);

/* Whether the other end has ended the flow, or broken it: 1, -1 after thread_fail(), or 0. */
int probe_check_flow(struct flow_thread *thread);

/* Opens a socket for the next request; connects it; ends the connection, if there is one. In
 * between the thread works on it instead of the flow's. */
bool probe_connection(struct flow_thread *thread, const struct exchange *exchange);
bool probe_connect(struct flow_thread *thread, const struct exchange *exchange);
void probe_disconnect(struct flow_thread *thread);

bool probe_answer_connections(struct flow_thread *thread, struct exchange *exchange);

bool probe_ask_datagrams(struct flow_thread *thread, struct exchange *exchange,
                         const struct schedule *schedule);
bool probe_answer_datagrams(struct flow_thread *thread, struct exchange *exchange);

#endif
