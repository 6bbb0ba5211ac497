#include "udp_wire.h"

#include "bytes.h"

#include <string.h>

static const unsigned char magic[4] = {'O', 'S', 'M', 'U'};
enum {
    COOKIE_AT = 4,
    COOKIE_PART = 8,
    FLOW_AT = 12,
    PHASE_AT = 14,
    DIRECTION_AT = 15,
    SEQUENCE_AT = 16,
    TIME_AT = 24
};

void udp_header_begin(const struct udp_flow *flow, unsigned char text[UDP_HEADER_SIZE])
{
    const struct handshake *handshake = &flow->udp->params.link.handshake;
    memcpy(text, magic, sizeof magic);
    memcpy(text + COOKIE_AT, handshake->cookie, COOKIE_PART);
    text[FLOW_AT] = (unsigned char)(flow->index >> 8);
    text[FLOW_AT + 1] = (unsigned char)flow->index;
    text[DIRECTION_AT] = (unsigned char)handshake->direction;
}

void udp_header_write(const struct udp_header *header, unsigned char text[UDP_HEADER_SIZE])
{
    text[PHASE_AT] = (unsigned char)header->phase;
    put(text + SEQUENCE_AT, 8, header->sequence);
    put(text + TIME_AT, 8, (uint64_t)header->sent_ns);
}

bool udp_header_read(const struct udp_flow *flow, const unsigned char *text, size_t size,
                     struct udp_header *header)
{
    unsigned char expected[UDP_HEADER_SIZE];
    if (size != (size_t)flow->udp->params.size || text[PHASE_AT] >= UDP_PHASES)
        return false;
    udp_header_begin(flow, expected);
    if (memcmp(text, expected, PHASE_AT) != 0 || text[DIRECTION_AT] != expected[DIRECTION_AT])
        return false;
    header->phase = (enum udp_phase)text[PHASE_AT];
    header->sequence = get(text + SEQUENCE_AT, 8);
    header->sent_ns = (int64_t)get(text + TIME_AT, 8);
    return header->sequence < UDP_LIMIT && (uint64_t)header->sent_ns < UDP_LIMIT;
}

void udp_count_write(const struct udp_flow *flow, unsigned char text[UDP_COUNT_SIZE])
{
    for (int i = 0; i < UDP_PHASES; i++)
        put(text + 8 * i, 8, flow->sent[i]);
    put(text + 8 * UDP_PHASES, 8, (uint64_t)flow->length_ns);
}

bool udp_count_read(struct udp_flow *flow, const unsigned char text[UDP_COUNT_SIZE])
{
    const uint64_t length_ns = get(text + 8 * UDP_PHASES, 8);
    bool possible = length_ns < UDP_LIMIT;
    for (int i = 0; i < UDP_PHASES; i++) {
        flow->sent[i] = get(text + 8 * i, 8);
        possible = possible && flow->sent[i] < UDP_LIMIT;
    }
    flow->length_ns = (int64_t)length_ns;
    return possible;
}
