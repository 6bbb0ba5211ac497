#include "opening.h"

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

void opening_write(const struct opening *opening, int flow, unsigned char text[OPENING_SIZE])
{
    memset(text, 0, OPENING_SIZE);
    memcpy(text, magic, sizeof magic);
    put(text + FLOW_AT, 2, (uint64_t)flow);
    put(text + FLOWS_AT, 2, (uint64_t)opening->flows);
    put(text + KIND_AT, 1, (uint64_t)opening->kind);
    put(text + DIRECTION_AT, 1, (uint64_t)opening->direction);
    put(text + DURATION_AT, 4, opening->duration_ms);
    put(text + WARMUP_AT, 4, opening->warmup_ms);
    put(text + BYTES_AT, 8, opening->bytes);
    memcpy(text + COOKIE_AT, opening->cookie, COOKIE_SIZE);
}

/* In constant time: the cookie can't be found byte by byte from the time of an answer. */
static bool is_same_cookie(const unsigned char *a, const unsigned char *b)
{
    volatile unsigned char difference = 0;
    for (int i = 0; i < COOKIE_SIZE; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

static void read_members(struct opening *opening, const unsigned char *text)
{
    opening->flows = (int)get(text + FLOWS_AT, 2);
    opening->direction = (enum direction)text[DIRECTION_AT];
    opening->duration_ms = (uint32_t)get(text + DURATION_AT, 4);
    opening->warmup_ms = (uint32_t)get(text + WARMUP_AT, 4);
    opening->bytes = get(text + BYTES_AT, 8);
}

int opening_check(struct opening *opening, const unsigned char text[OPENING_SIZE])
{
    const uint64_t flow = get(text + FLOW_AT, 2);
    const uint64_t flows = get(text + FLOWS_AT, 2);
    if (!is_same_cookie(text + COOKIE_AT, opening->cookie) ||
        memcmp(text, magic, sizeof magic) != 0)
        return -1;
    if (flows < 1 || flows > MAX_FLOWS || flow >= flows || text[KIND_AT] != opening->kind ||
        text[DIRECTION_AT] > BOTH || (text[DIRECTION_AT] == BOTH && flows % 2 != 0))
        return -1;
    if (opening->flows == 0)
        read_members(opening, text);
    if (flows != (uint64_t)opening->flows || text[DIRECTION_AT] != opening->direction)
        return -1;
    return (int)flow;
}

void linger_reset(int fd, bool reset)
{
    const struct linger linger = {.l_onoff = reset, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}
