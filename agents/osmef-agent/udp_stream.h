/* What a receiver learns from the datagrams of one numbered stream: loss, duplicates, reordering,
 * and how much the delay varies. No clock of the sender has to agree with ours: only differences
 * count. */
#ifndef OSMEF_UDP_STREAM_H
#define OSMEF_UDP_STREAM_H

#include "histogram.h"

#include <stdbool.h>
#include <stdint.h>

/* So many of the latest sequence numbers are remembered. A datagram that comes later than that can
 * not be told from a duplicate: it counts as `late`, and its number stays lost. */
#define STREAM_WINDOW 65536
/* So many of the latest gaps are remembered. The extent of a datagram that belongs into an older
 * one is measured from the oldest, so it is at least what is told. */
#define STREAM_GAPS 512

/* Sequence numbers that were passed over, and by which arrival. */
struct stream_gap {
    uint64_t first;
    uint64_t arrival;
};

struct stream {
    uint64_t received; /* without duplicates */
    uint64_t bytes;
    uint64_t duplicates; /* RFC 5560 */
    uint64_t late;
    uint64_t reordered;  /* RFC 4737, section 3: below the next expected number */
    uint64_t extent_max; /* RFC 4737, section 4.2 */
    uint64_t episodes;   /* runs of lost datagrams; they are known once they left the window */
    uint64_t longest_episode;
    double jitter_ns; /* RFC 3550, section 6.4.1, as it is now */
    double jitter_sum_ns;
    double jitter_max_ns;
    uint64_t jitter_count;
    /* RFC 3393: how much the one-way delays of a datagram and the next one sent differ; absolute
     * values. */
    struct histogram variation;

    uint64_t next; /* the highest sequence number + 1 */
    uint64_t base; /* the lowest in the window */
    uint64_t run;  /* of lost ones, just below the window */
    int64_t last_transit_ns;
    uint64_t last_sequence;
    uint64_t gap_count;
    struct stream_gap gaps[STREAM_GAPS];
    uint64_t window[STREAM_WINDOW / 64];
};

/* Counts a datagram. An all-zero stream is one of which nothing has come yet. */
void stream_arrive(struct stream *stream, uint64_t sequence, int size, int64_t sent_ns,
                   int64_t arrived_ns);

/* Closes the account: whatever of the first `sent` numbers has not come is lost. */
void stream_finish(struct stream *stream, uint64_t sent);

/* How many are missing, the tail that nobody knows of aside. */
uint64_t stream_missing(const struct stream *stream);

#endif
