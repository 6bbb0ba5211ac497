/* Statistics of numbered datagrams at the receiver: loss, duplicates, reordering and the variation
 * of the delay. The clocks of both ends need not be synchronized, since only differences of delays
 * are used. */
#ifndef OSMEF_DATAGRAM_STATS_H
#define OSMEF_DATAGRAM_STATS_H

#include "histogram.h"

#include <stdbool.h>
#include <stdint.h>

/* The window of the latest sequence numbers. A datagram with a lower number may be a duplicate: it
 * is counted as `late`, and its number stays lost. */
#define STATS_WINDOW 65536
/* How many of the latest gaps are kept. The reordering extent of a datagram of an older gap is
 * measured from the oldest one kept, and so is a lower bound. */
#define STATS_GAPS 512

/* The first missing sequence number, and the arrival after it. */
struct sequence_gap {
    uint64_t first;
    uint64_t arrival;
};

struct datagram_stats {
    uint64_t received; /* without duplicates */
    uint64_t bytes;
    uint64_t duplicates; /* RFC 5560 */
    uint64_t late;
    uint64_t reordered;  /* RFC 4737, section 3: below the next expected number */
    uint64_t extent_max; /* RFC 4737, section 4.2 */
    uint64_t episodes;   /* runs of lost datagrams below the window */
    uint64_t longest_episode;
    double jitter_ns; /* RFC 3550, section 6.4.1, the current value */
    double jitter_sum_ns;
    double jitter_max_ns;
    uint64_t jitter_count;
    /* RFC 3393: how much the one-way delays of a datagram and the next one sent differ; absolute
     * values. */
    struct histogram variation;

    uint64_t next; /* the highest sequence number + 1 */
    uint64_t base; /* the lowest in the window */
    uint64_t run;  /* of lost ones, directly below the window */
    int64_t last_transit_ns;
    uint64_t last_sequence;
    uint64_t gap_count;
    struct sequence_gap gaps[STATS_GAPS];
    uint64_t window[STATS_WINDOW / 64];
};

/* Counts a datagram. The initial state is all zero. */
void stats_arrive(struct datagram_stats *stats, uint64_t sequence, int size, int64_t sent_ns,
                  int64_t arrived_ns);

/* Ends the count: of the first `sent` numbers those that have not been received are lost. */
void stats_finish(struct datagram_stats *stats, uint64_t sent);

/* How many are missing so far, without those after the last one received. */
uint64_t stats_missing(const struct datagram_stats *stats);

#endif
