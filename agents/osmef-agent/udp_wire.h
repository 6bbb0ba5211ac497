/* The messages between both ends of a UDP job, big endian. */
#ifndef OSMEF_UDP_WIRE_H
#define OSMEF_UDP_WIRE_H

#include "udp.h"

/* A datagram begins with: 0-3 "OSMU", 4-11 the cookie's first half, 12-13 flow, 14 phase (0
 * warm-up, 1 measured), 15 direction, 16-23 number in its phase, 24-31 the sender's monotonic time
 * in ns. */
#define UDP_HEADER_SIZE 32

/* On the TCP connection: each end's UDP port (2 bytes); on flow 0 the byte that starts the job; at
 * the end the sender's count: 0-7 datagrams of the warm-up, 8-15 of the measurement, 16-23 its
 * duration in ns. */
#define UDP_GO 'G'
#define UDP_COUNT_SIZE 24

struct udp_header {
    enum udp_phase phase;
    uint64_t sequence;
    int64_t sent_ns;
};

/* Writes the constant part of all headers of a flow, and the variable one. */
void udp_header_begin(const struct udp_flow *flow, unsigned char text[UDP_HEADER_SIZE]);
void udp_header_write(const struct udp_header *header, unsigned char text[UDP_HEADER_SIZE]);

/* Returns false for a datagram of another flow. */
bool udp_header_read(const struct udp_flow *flow, const unsigned char *text, size_t size,
                     struct udp_header *header);

/* The limit of numbers of datagrams and of nanoseconds, so that sums with them can't wrap. */
#define UDP_LIMIT ((uint64_t)1 << 60)

void udp_count_write(const struct udp_flow *flow, unsigned char text[UDP_COUNT_SIZE]);
/* Returns false for impossible values. */
bool udp_count_read(struct udp_flow *flow, const unsigned char text[UDP_COUNT_SIZE]);

#endif
