/* Datagrams of a UDP flow in any order, and the count at its end: the account adds up. */
#include "../osmef-agent/bytes.h"
#include "../osmef-agent/udp_wire.h"

#include <stdlib.h>
#include <string.h>

/* A datagram and the time at which it came. */
#define RECORD (UDP_HEADER_SIZE + 8)

static void check(const struct stream *stream, uint64_t sent)
{
    if (stream->next != sent || stream->reordered > stream->received ||
        stream->extent_max > stream->received)
        abort();
    if (!(stream->jitter_ns >= 0) || stream->jitter_max_ns < stream->jitter_ns)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct udp udp = {.params.size = UDP_HEADER_SIZE};
    static struct udp_flow flow = {.udp = &udp};
    struct udp_header header;
    if (size < UDP_COUNT_SIZE)
        return 0;
    memset(flow.streams, 0, sizeof flow.streams);
    const bool counted = udp_count_read(&flow, data);
    for (size_t at = UDP_COUNT_SIZE; at + RECORD <= size; at += RECORD)
        if (udp_header_read(&flow, data + at, UDP_HEADER_SIZE, &header))
            stream_arrive(&flow.streams[header.phase], header.sequence, UDP_HEADER_SIZE,
                          header.sent_ns,
                          (int64_t)(get(data + at + UDP_HEADER_SIZE, 8) % UDP_MOST));
    for (int i = 0; counted && i < UDP_PHASES; i++) {
        stream_finish(&flow.streams[i], flow.sent[i]);
        check(&flow.streams[i], flow.sent[i]);
    }
    return 0;
}
