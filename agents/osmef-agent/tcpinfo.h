/* The kernel's data of a connection: TCP_INFO (tcp(7), linux/tcp.h). */
#ifndef OSMEF_TCPINFO_H
#define OSMEF_TCPINFO_H

#include <stdint.h>

/* The kernel does not support the value, or has none yet. */
#define UNKNOWN (-1)

enum tcp_value {
    TCP_MSS,
    TCP_PATH_MTU,
    TCP_RTT_US,
    TCP_RTT_MIN_US,
    TCP_RTTVAR_US,
    TCP_CWND,
    TCP_RETRANSMITS,
    TCP_RETRANSMITTED_BYTES,
    TCP_LOST,
    TCP_REORDERING,
    TCP_PACING_RATE_BPS,
    TCP_DELIVERY_RATE_BPS,
    TCP_BUSY_US,
    TCP_RECEIVE_WINDOW_LIMITED_US,
    TCP_SEND_BUFFER_LIMITED_US,
    TCP_RECEIVE_RTT_US,
    TCP_RECEIVE_SPACE,
    TCP_SENT_BYTES,
    TCP_SEND_WINDOW,
    TCP_MAX_PACING_RATE_BPS,
    TCP_VALUES
};
extern const char *const tcp_names[TCP_VALUES];

struct tcp_state {
    char congestion_control[16]; /* empty: unknown */
    int64_t value[TCP_VALUES];
    int64_t send_buffer; /* effective bytes, bookkeeping included (SO_SNDBUF, socket(7)) */
    int64_t receive_buffer;
};

void tcp_state_read(int fd, struct tcp_state *state);

/* The increase of a counter between two states, or UNKNOWN. Some have 32 bits in the kernel and
 * wrap. */
int64_t tcp_growth(enum tcp_value which, int64_t earlier, int64_t later);

/* Returns the bytes that the peer has not acknowledged yet; a FIN counts as one. */
int64_t tcp_unacknowledged(int fd);

#endif
