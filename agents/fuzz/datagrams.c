/* Datagrams of a UDP flow in any order, and the count at its end: the statistics are consistent. */
#include "../osmef-agent/bytes.h"
#include "../osmef-agent/udp_wire.h"

#include <stdlib.h>
#include <string.h>

/* A datagram and its time of arrival. */
#define RECORD (UDP_HEADER_SIZE + 8)

static void check(const struct datagram_stats *stats, uint64_t sent)
{
    if (stats->next != sent || stats->reordered > stats->received ||
        stats->extent_max > stats->received)
        abort();
    if (!(stats->jitter_ns >= 0) || stats->jitter_max_ns < stats->jitter_ns)
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
    memset(flow.stats, 0, sizeof flow.stats);
    const bool counted = udp_count_read(&flow, data);
    for (size_t at = UDP_COUNT_SIZE; at + RECORD <= size; at += RECORD)
        if (udp_header_read(&flow, data + at, UDP_HEADER_SIZE, &header))
            stats_arrive(&flow.stats[header.phase], header.sequence, UDP_HEADER_SIZE,
                         header.sent_ns,
                         (int64_t)(get(data + at + UDP_HEADER_SIZE, 8) % UDP_LIMIT));
    for (int i = 0; counted && i < UDP_PHASES; i++) {
        stats_finish(&flow.stats[i], flow.sent[i]);
        check(&flow.stats[i], flow.sent[i]);
    }
    return 0;
}
