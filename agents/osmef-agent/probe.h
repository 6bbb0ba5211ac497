/* Requests beside a flow's connection: each with a connection of its own, or in a datagram of UDP
 * or ICMP. The connection of the flow tells when they begin and end.
 *
 * Such a request begins with 0-7 the cookie's first half, 8-9 flow, 10-15 its number, big endian.
 */
#ifndef OSMEF_PROBE_H
#define OSMEF_PROBE_H

#include "exchange.h"
#include "schedule.h"

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

void probe_header_write(const struct hand *hand, uint64_t number, unsigned char *request);
/* Returns false for one that is not of this flow. */
bool probe_header_read(const struct hand *hand, const unsigned char *request, ssize_t size,
                       uint64_t *number);

/* What follows is for the threads. */

/* Says, or hears, that requests begin. */
bool probe_begin(struct hand *hand);

/* Whether the other end has ended the flow, or broken it: 1, -1 after hand_fail(), or 0. */
int probe_look(struct hand *hand);

/* Opens a socket for the next request; connects it; ends the connection, if there is one. In
 * between the hand works on it instead of the flow's. */
bool probe_connection(struct hand *hand, const struct exchange *exchange);
bool probe_connect(struct hand *hand, const struct exchange *exchange);
void probe_hang_up(struct hand *hand);

bool probe_answer_connections(struct hand *hand, struct exchange *exchange);

bool probe_ask_datagrams(struct hand *hand, struct exchange *exchange,
                         const struct schedule *schedule);
bool probe_answer_datagrams(struct hand *hand, struct exchange *exchange);

#endif
