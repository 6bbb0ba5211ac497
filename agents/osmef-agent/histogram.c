#include "histogram.h"

#include "out.h"

#include <math.h>

/* The index of a bucket: the octave, and the 5 bits after the leading one. */
static int bucket_of(int64_t ns)
{
    if (ns < 64)
        return (int)ns;
    const int octave = 63 - __builtin_clzll((unsigned long long)ns);
    if (octave >= 6 + HISTOGRAM_OCTAVES)
        return HISTOGRAM_BUCKETS - 1;
    return 64 + 32 * (octave - 6) + (int)(ns >> (octave - 5)) - 32;
}

/* The lower limit of a bucket; also of the one after the last. */
static int64_t lower_of(int bucket)
{
    if (bucket < 64)
        return bucket;
    return (int64_t)(32 + (bucket - 64) % 32) << ((bucket - 64) / 32 + 1);
}

void histogram_add(struct histogram *h, int64_t ns)
{
    const int64_t value = ns < 0 ? 0 : ns;
    if (h->count == 0 || value < h->min_ns)
        h->min_ns = value;
    if (h->count == 0 || value > h->max_ns)
        h->max_ns = value;
    h->count++;
    h->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *other)
{
    if (other->count == 0)
        return;
    if (h->count == 0 || other->min_ns < h->min_ns)
        h->min_ns = other->min_ns;
    if (h->count == 0 || other->max_ns > h->max_ns)
        h->max_ns = other->max_ns;
    h->count += other->count;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->buckets[i] += other->buckets[i];
}

static int64_t middle_of(const struct histogram *h, int bucket)
{
    const int64_t low = lower_of(bucket);
    const int64_t middle = low + (lower_of(bucket + 1) - low) / 2;
    /* Minimum and maximum are exact. Beyond the range only the maximum is known. */
    if (middle > h->max_ns || bucket == HISTOGRAM_BUCKETS - 1)
        return h->max_ns;
    return middle < h->min_ns ? h->min_ns : middle;
}

int64_t histogram_quantile(const struct histogram *h, double q)
{
    if (h->count == 0)
        return -1;
    const double wanted = ceil(q * (double)h->count);
    if (wanted >= (double)h->count)
        return h->max_ns;
    const uint64_t rank = wanted < 1 ? 1 : (uint64_t)wanted;
    uint64_t seen = 0;
    int bucket = 0;
    while ((seen += h->buckets[bucket]) < rank)
        bucket++;
    return middle_of(h, bucket);
}

enum column { LOWER, UPPER, COUNT };

static void write_column(const struct histogram *h, const char *name, enum column column)
{
    const char *separator = "";
    out_format(",\"%s\":[", name);
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (h->buckets[i] == 0)
            continue;
        const uint64_t value =
            column == COUNT ? h->buckets[i] : (uint64_t)lower_of(i + (column == UPPER));
        out_format("%s%llu", separator, (unsigned long long)value);
        separator = ",";
    }
    out_format("]");
}

void histogram_write(const struct histogram *h)
{
    out_format("\"histogram\":{\"error_percent\":%g", HISTOGRAM_ERROR_PERCENT);
    write_column(h, "lower_ns", LOWER);
    write_column(h, "upper_ns", UPPER);
    write_column(h, "count", COUNT);
    out_format("}");
}
