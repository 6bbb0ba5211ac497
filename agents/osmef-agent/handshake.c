#include "handshake.h"

#include "bytes.h"

#include <string.h>
#include <sys/socket.h>

/* 0-5 magic, 6-7 flow, 8-9 flows, 10 kind, 11 direction, 12-15 duration in ms, 16-19 warm-up in ms,
 * 20-27 bytes, 28-31 zero, 32-47 cookie; big endian. */
static const unsigned char magic[6] = {'O', 'S', 'M', 'E', 'F', '2'};
enum {
    FLOW_AT = 6,
    FLOWS_AT = 8,
    KIND_AT = 10,
    DIRECTION_AT = 11,
    DURATION_AT = 12,
    WARMUP_AT = 16,
    BYTES_AT = 20,
    COOKIE_AT = 32
};

void handshake_write(const struct handshake *handshake, int flow,
                     unsigned char text[HANDSHAKE_SIZE])
{
    memset(text, 0, HANDSHAKE_SIZE);
    memcpy(text, magic, sizeof magic);
    put(text + FLOW_AT, 2, (uint64_t)flow);
    put(text + FLOWS_AT, 2, (uint64_t)handshake->flows);
    put(text + KIND_AT, 1, (uint64_t)handshake->kind);
    put(text + DIRECTION_AT, 1, (uint64_t)handshake->direction);
    put(text + DURATION_AT, 4, handshake->duration_ms);
    put(text + WARMUP_AT, 4, handshake->warmup_ms);
    put(text + BYTES_AT, 8, handshake->bytes);
    memcpy(text + COOKIE_AT, handshake->cookie, COOKIE_SIZE);
}

/* In constant time: the cookie can't be found byte by byte from the time of an answer. */
static bool is_same_cookie(const unsigned char *a, const unsigned char *b)
{
    volatile unsigned char difference = 0;
    for (int i = 0; i < COOKIE_SIZE; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

static void read_members(struct handshake *handshake, const unsigned char *text)
{
    handshake->flows = (int)get(text + FLOWS_AT, 2);
    handshake->direction = (enum direction)text[DIRECTION_AT];
    handshake->duration_ms = (uint32_t)get(text + DURATION_AT, 4);
    handshake->warmup_ms = (uint32_t)get(text + WARMUP_AT, 4);
    handshake->bytes = get(text + BYTES_AT, 8);
}

int handshake_check(struct handshake *handshake, const unsigned char text[HANDSHAKE_SIZE])
{
    const uint64_t flow = get(text + FLOW_AT, 2);
    const uint64_t flows = get(text + FLOWS_AT, 2);
    if (!is_same_cookie(text + COOKIE_AT, handshake->cookie) ||
        memcmp(text, magic, sizeof magic) != 0)
        return -1;
    if (flows < 1 || flows > MAX_FLOWS || flow >= flows || text[KIND_AT] != handshake->kind ||
        text[DIRECTION_AT] > BOTH || (text[DIRECTION_AT] == BOTH && flows % 2 != 0))
        return -1;
    if (handshake->flows == 0)
        read_members(handshake, text);
    if (flows != (uint64_t)handshake->flows || text[DIRECTION_AT] != handshake->direction)
        return -1;
    return (int)flow;
}

void linger_reset(int fd, bool reset)
{
    const struct linger linger = {.l_onoff = reset, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}
