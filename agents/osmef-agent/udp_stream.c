#include "udp_stream.h"

#include <math.h>

#define JITTER_GAIN (1.0 / 16)

static uint64_t *word_of(struct stream *s, uint64_t sequence)
{
    return &s->window[sequence % STREAM_WINDOW / 64];
}

static uint64_t bit_of(uint64_t sequence)
{
    return (uint64_t)1 << sequence % 64;
}

static void end_run(struct stream *s)
{
    if (s->run == 0)
        return;
    s->episodes++;
    if (s->run > s->longest_episode)
        s->longest_episode = s->run;
    s->run = 0;
}

/* The lowest number leaves the window: now it is lost or not. */
static void leave(struct stream *s)
{
    uint64_t *word = word_of(s, s->base);
    if (*word & bit_of(s->base))
        end_run(s);
    else
        s->run++;
    *word &= ~bit_of(s->base);
    s->base++;
}

static void slide(struct stream *s, uint64_t next)
{
    const uint64_t base = next > STREAM_WINDOW ? next - STREAM_WINDOW : 0;
    const uint64_t known = base < s->next ? base : s->next;
    while (s->base < known)
        leave(s);
    if (s->base < base) { /* an outage longer than the window */
        s->run += base - s->base;
        s->base = base;
    }
    s->next = next;
}

static void note_gap(struct stream *s)
{
    s->gaps[s->gap_count++ % STREAM_GAPS] = (struct stream_gap){s->next, s->received + 1};
}

/* The first arrival that was sent after this datagram is the one that made its gap. */
static void note_extent(struct stream *s, uint64_t sequence)
{
    const uint64_t oldest = s->gap_count > STREAM_GAPS ? s->gap_count - STREAM_GAPS : 0;
    uint64_t at = s->gap_count - 1;
    while (at > oldest && s->gaps[at % STREAM_GAPS].first > sequence)
        at--;
    const uint64_t extent = s->received + 1 - s->gaps[at % STREAM_GAPS].arrival;
    if (extent > s->extent_max)
        s->extent_max = extent;
}

static void note_delay(struct stream *s, uint64_t sequence, int64_t transit_ns)
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
static bool place(struct stream *s, uint64_t sequence)
{
    if (sequence < s->base) {
        s->late++;
        return false;
    }
    if (sequence >= s->next) {
        if (sequence > s->next)
            note_gap(s);
        slide(s, sequence + 1);
    } else if (*word_of(s, sequence) & bit_of(sequence)) {
        s->duplicates++;
        return false;
    } else {
        s->reordered++;
        note_extent(s, sequence);
    }
    *word_of(s, sequence) |= bit_of(sequence);
    return true;
}

void stream_arrive(struct stream *s, uint64_t sequence, int size, int64_t sent_ns,
                   int64_t arrived_ns)
{
    if (!place(s, sequence))
        return;
    note_delay(s, sequence, arrived_ns - sent_ns);
    s->received++;
    s->bytes += (uint64_t)size;
}

void stream_finish(struct stream *s, uint64_t sent)
{
    slide(s, (sent > s->next ? sent : s->next) + STREAM_WINDOW);
    end_run(s);
    s->next = sent;
}

uint64_t stream_missing(const struct stream *s)
{
    return s->next > s->received ? s->next - s->received : 0;
}
