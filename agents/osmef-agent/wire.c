#include "wire.h"

#include <math.h>
#include <string.h>
#include <sys/socket.h>

/* 0-5 magic, 6-7 flow, 8-9 flows, 10-13 duration in ms, 14-15 zero, 16-31 cookie; big endian. */
static const unsigned char magic[6] = {'O', 'S', 'M', 'E', 'F', '1'};
enum { FLOW_AT = 6, FLOWS_AT = 8, DURATION_AT = 10, COOKIE_AT = 16 };

static void put(unsigned char *at, int size, uint32_t value)
{
    for (int i = size - 1; i >= 0; i--, value >>= 8)
        at[i] = (unsigned char)value;
}

static uint32_t get(const unsigned char *at, int size)
{
    uint32_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

void wire_header(const struct params *params, int flow, unsigned char header[HEADER_SIZE])
{
    memset(header, 0, HEADER_SIZE);
    memcpy(header, magic, sizeof magic);
    put(header + FLOW_AT, 2, (uint32_t)flow);
    put(header + FLOWS_AT, 2, (uint32_t)params->flows);
    put(header + DURATION_AT, 4, (uint32_t)lround(params->duration_s * 1000));
    memcpy(header + COOKIE_AT, params->cookie, COOKIE_SIZE);
}

/* Takes the same time wherever the first difference is, so that nobody can guess byte by byte. */
static bool same_cookie(const unsigned char *a, const unsigned char *b)
{
    volatile unsigned char difference = 0;
    for (int i = 0; i < COOKIE_SIZE; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

int wire_check(struct params *params, const unsigned char header[HEADER_SIZE])
{
    const uint32_t flow = get(header + FLOW_AT, 2);
    const uint32_t flows = get(header + FLOWS_AT, 2);
    if (!same_cookie(header + COOKIE_AT, params->cookie) ||
        memcmp(header, magic, sizeof magic) != 0)
        return -1;
    if (flows < 1 || flows > MAX_FLOWS || flow >= flows)
        return -1;
    if (params->flows == 0) {
        params->flows = (int)flows;
        params->duration_s = get(header + DURATION_AT, 4) / 1000.0;
    }
    return flows == (uint32_t)params->flows ? (int)flow : -1;
}

void wire_linger_reset(int fd, bool reset)
{
    const struct linger linger = {.l_onoff = reset, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}
