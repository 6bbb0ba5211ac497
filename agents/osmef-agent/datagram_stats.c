#include "datagram_stats.h"

#include <math.h>

#define JITTER_GAIN (1.0 / 16)

static uint64_t *word_of(struct datagram_stats *s, uint64_t sequence)
{
    return &s->window[sequence % STATS_WINDOW / 64];
}

static uint64_t bit_of(uint64_t sequence)
{
    return (uint64_t)1 << sequence % 64;
}

static void end_episode(struct datagram_stats *s)
{
    if (s->run == 0)
        return;
    s->episodes++;
    if (s->run > s->longest_episode)
        s->longest_episode = s->run;
    s->run = 0;
}

/* Removes the lowest number from the window: if it has not been received by now, it is lost. */
static void advance_base(struct datagram_stats *s)
{
    uint64_t *word = word_of(s, s->base);
    if (*word & bit_of(s->base))
        end_episode(s);
    else
        s->run++;
    *word &= ~bit_of(s->base);
    s->base++;
}

static void slide_window(struct datagram_stats *s, uint64_t next)
{
    const uint64_t base = next > STATS_WINDOW ? next - STATS_WINDOW : 0;
    const uint64_t known = base < s->next ? base : s->next;
    while (s->base < known)
        advance_base(s);
    if (s->base < base) { /* an outage longer than the window */
        s->run += base - s->base;
        s->base = base;
    }
    s->next = next;
}

static void record_gap(struct datagram_stats *s)
{
    s->gaps[s->gap_count++ % STATS_GAPS] = (struct sequence_gap){s->next, s->received + 1};
}

/* The gap of a datagram was made by the first arrival that was sent after it. */
static void record_extent(struct datagram_stats *s, uint64_t sequence)
{
    const uint64_t oldest = s->gap_count > STATS_GAPS ? s->gap_count - STATS_GAPS : 0;
    uint64_t at = s->gap_count - 1;
    while (at > oldest && s->gaps[at % STATS_GAPS].first > sequence)
        at--;
    const uint64_t extent = s->received + 1 - s->gaps[at % STATS_GAPS].arrival;
    if (extent > s->extent_max)
        s->extent_max = extent;
}

static void record_delay(struct datagram_stats *s, uint64_t sequence, int64_t transit_ns)
{
    if (s->received > 0) {
        const int64_t difference = transit_ns - s->last_transit_ns;
        const int64_t size = difference < 0 ? -difference : difference;
        s->jitter_ns += ((double)size - s->jitter_ns) * JITTER_GAIN;
        s->jitter_sum_ns += s->jitter_ns;
        s->jitter_max_ns = fmax(s->jitter_max_ns, s->jitter_ns);
        s->jitter_count++;
        if (sequence == s->last_sequence + 1)
            histogram_add(&s->variation, size);
    }
    s->last_transit_ns = transit_ns;
    s->last_sequence = sequence;
}

/* Returns false for a datagram that does not count: a duplicate, or one that is too late. */
static bool record_sequence(struct datagram_stats *s, uint64_t sequence)
{
    if (sequence < s->base) {
        s->late++;
        return false;
    }
    if (sequence >= s->next) {
        if (sequence > s->next)
            record_gap(s);
        slide_window(s, sequence + 1);
    } else if (*word_of(s, sequence) & bit_of(sequence)) {
        s->duplicates++;
        return false;
    } else {
        s->reordered++;
        record_extent(s, sequence);
    }
    *word_of(s, sequence) |= bit_of(sequence);
    return true;
}

void stats_arrive(struct datagram_stats *s, uint64_t sequence, int size, int64_t sent_ns,
                  int64_t arrived_ns)
{
    if (!record_sequence(s, sequence))
        return;
    record_delay(s, sequence, arrived_ns - sent_ns);
    s->received++;
    s->bytes += (uint64_t)size;
}

void stats_finish(struct datagram_stats *s, uint64_t sent)
{
    slide_window(s, (sent > s->next ? sent : s->next) + STATS_WINDOW);
    end_episode(s);
    s->next = sent;
}

uint64_t stats_missing(const struct datagram_stats *s)
{
    return s->next > s->received ? s->next - s->received : 0;
}
