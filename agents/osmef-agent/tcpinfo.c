#include "tcpinfo.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

const char *const tcp_names[TCP_VALUES] = {
    "mss",
    "path_mtu",
    "rtt_us",
    "rtt_min_us",
    "rttvar_us",
    "cwnd",
    "retransmits",
    "retransmitted_bytes",
    "lost",
    "reordering",
    "pacing_rate_bps",
    "delivery_rate_bps",
    "busy_us",
    "receive_window_limited_us",
    "send_buffer_limited_us",
    "receive_rtt_us",
    "receive_space",
    "sent_bytes",
    "send_window",
    "max_pacing_rate_bps",
};

/* The value of a field that has no value yet: a receiver has no delivery rate, for example. */
enum absent { NEVER, ZERO, ALL_ONES };

struct field {
    size_t offset;
    size_t size;
    enum absent absent;
    int factor;
};

#define FIELD(name, absent, factor)                                                                \
    {offsetof(struct tcp_info, tcpi_##name), sizeof(((struct tcp_info *)0)->tcpi_##name), absent,  \
     factor}

static const struct field fields[TCP_VALUES] = {
    [TCP_MSS] = FIELD(snd_mss, ZERO, 1),
    [TCP_PATH_MTU] = FIELD(pmtu, ZERO, 1),
    [TCP_RTT_US] = FIELD(rtt, ZERO, 1),
    [TCP_RTT_MIN_US] = FIELD(min_rtt, ALL_ONES, 1),
    [TCP_RTTVAR_US] = FIELD(rttvar, ZERO, 1),
    [TCP_CWND] = FIELD(snd_cwnd, ZERO, 1),
    [TCP_RETRANSMITS] = FIELD(total_retrans, NEVER, 1),
    [TCP_RETRANSMITTED_BYTES] = FIELD(bytes_retrans, NEVER, 1),
    [TCP_LOST] = FIELD(lost, NEVER, 1),
    [TCP_REORDERING] = FIELD(reordering, ZERO, 1),
    [TCP_PACING_RATE_BPS] = FIELD(pacing_rate, ALL_ONES, 8),
    [TCP_DELIVERY_RATE_BPS] = FIELD(delivery_rate, ZERO, 8),
    [TCP_BUSY_US] = FIELD(busy_time, NEVER, 1),
    [TCP_RECEIVE_WINDOW_LIMITED_US] = FIELD(rwnd_limited, NEVER, 1),
    [TCP_SEND_BUFFER_LIMITED_US] = FIELD(sndbuf_limited, NEVER, 1),
    [TCP_RECEIVE_RTT_US] = FIELD(rcv_rtt, ZERO, 1),
    [TCP_RECEIVE_SPACE] = FIELD(rcv_space, ZERO, 1),
    [TCP_SENT_BYTES] = FIELD(bytes_sent, NEVER, 1),
    [TCP_SEND_WINDOW] = FIELD(snd_wnd, NEVER, 1),
    [TCP_MAX_PACING_RATE_BPS] = FIELD(max_pacing_rate, ALL_ONES, 8),
};

/* Returns the field's value if it is within the `length` bytes that the kernel has filled in. */
static int64_t field_value(const struct field *field, const struct tcp_info *info, size_t length)
{
    if (field->offset + field->size > length)
        return UNKNOWN;
    const char *at = (const char *)info + field->offset;
    uint64_t value = 0;
    uint64_t ones = UINT64_MAX;
    if (field->size == sizeof(uint32_t)) {
        uint32_t narrow;
        memcpy(&narrow, at, sizeof narrow);
        value = narrow;
        ones = UINT32_MAX;
    } else {
        memcpy(&value, at, sizeof value);
    }
    if ((field->absent == ZERO && value == 0) || (field->absent == ALL_ONES && value == ones))
        return UNKNOWN;
    return (int64_t)value * field->factor;
}

static int64_t buffer_size(int fd, int option)
{
    int size;
    socklen_t length = sizeof size;
    return getsockopt(fd, SOL_SOCKET, option, &size, &length) < 0 ? UNKNOWN : size;
}

void tcp_state_read(int fd, struct tcp_state *state)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
        length = 0;
    for (int i = 0; i < TCP_VALUES; i++)
        state->value[i] = field_value(&fields[i], &info, length);
    length = sizeof state->congestion_control;
    memset(state->congestion_control, 0, sizeof state->congestion_control);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, state->congestion_control, &length) < 0)
        state->congestion_control[0] = '\0';
    state->congestion_control[sizeof state->congestion_control - 1] = '\0';
    state->send_buffer = buffer_size(fd, SO_SNDBUF);
    state->receive_buffer = buffer_size(fd, SO_RCVBUF);
}

int64_t tcp_growth(enum tcp_value which, int64_t earlier, int64_t later)
{
    if (earlier == UNKNOWN || later == UNKNOWN)
        return UNKNOWN;
    if (fields[which].size == sizeof(uint32_t))
        return (uint32_t)later - (uint32_t)earlier;
    return later - earlier;
}

int64_t tcp_unacknowledged(int fd)
{
    int queued = 0;
    return ioctl(fd, SIOCOUTQ, &queued) < 0 ? 0 : queued;
}
