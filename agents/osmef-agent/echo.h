/* ICMP echo: sockets and messages (RFC 792, RFC 4443). */
#ifndef OSMEF_ECHO_H
#define OSMEF_ECHO_H

#include "exchange.h"

#define ECHO_HEADER_SIZE 8

/* Opens a flow's socket: an unprivileged one where the system permits it
 * (net.ipv4.ping_group_range, icmp(7)), otherwise a raw one. Returns -1 and fails the job. */
int echo_open(struct exchange *exchange, int flow);

/* Writes the header before a payload. Returns the size of both. */
size_t echo_write(const struct probe *probe, uint64_t number, unsigned char *text, size_t payload);

/* Returns the payload of an echo reply, and sets the size to its size; NULL for any other
 * message. */
const unsigned char *echo_read(const struct probe *probe, const unsigned char *text, ssize_t *size);

#endif
