/* Echoes of ICMP: their sockets, and what is said on them (RFC 792, RFC 4443). */
#ifndef OSMEF_ECHO_H
#define OSMEF_ECHO_H

#include "exchange.h"

#define ECHO_HEADER_SIZE 8

/* Opens a flow's socket: without any rights where the system lets users ask for echoes
 * (net.ipv4.ping_group_range, icmp(7)), otherwise with those of root. Returns -1 and fails the
 * job. */
int echo_open(struct exchange *exchange, int flow);

/* Writes the header before a payload. Returns the size of both. */
size_t echo_write(const struct probe *probe, uint64_t number, unsigned char *text, size_t payload);

/* Returns where the payload of an answer begins, and changes the size to its; NULL where it is
 * none. */
const unsigned char *echo_read(const struct probe *probe, const unsigned char *text, ssize_t *size);

#endif
