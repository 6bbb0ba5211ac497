/* The output of an exchange as events of the protocol. */
#include "clock.h"
#include "events.h"
#include "exchange.h"
#include "out.h"
#include "probe.h"

#include <math.h>
#include <string.h>

static struct {
    struct series times;
    uint64_t answered;
    struct tally tally;
} series;

void exchange_intervals_begin(void)
{
    memset(&series, 0, sizeof series);
}

static void set_deadline(const struct exchange *exchange)
{
    const struct exchange_params *p = &exchange->params;
    series_advance(&series.times, exchange->threads.start_ns,
                   p->interval_s > 0 ? p->interval_s : (double)INFINITY,
                   p->warmup_s + p->duration_s, FOREVER);
}

/* Reads and clears what the flow's thread has recorded since the last call. */
static void take(struct requester *requester)
{
    pthread_mutex_lock(&requester->mutex);
    struct tally *taken = &requester->interval[requester->current];
    requester->current = !requester->current;
    pthread_mutex_unlock(&requester->mutex);
    tally_merge(&series.tally, taken);
    memset(taken, 0, sizeof *taken);
}

static void write_ns(const char *name, const struct tally *tally, int64_t ns)
{
    out_format(",\"%s\":", name);
    write_value("", tally->histogram.count ? ns : UNKNOWN);
}

/* A stream loses nothing, since TCP retransmits. */
static void write_lost(const struct exchange *exchange, uint64_t lost)
{
    const bool known = protocol_is_datagrams(exchange->params.protocol);
    write_value(",\"lost\":", known ? (int64_t)lost : UNKNOWN);
}

static void write_quantiles(const struct tally *tally)
{
    static const struct {
        const char *name;
        double q;
    } quantiles[] = {{"p50_ns", 0.5},
                     {"p90_ns", 0.9},
                     {"p99_ns", 0.99},
                     {"p999_ns", 0.999},
                     {"p9999_ns", 0.9999}};
    const struct histogram *histogram = &tally->histogram;
    const uint64_t count = histogram->count;
    out_format("\"count\":%llu", (unsigned long long)count);
    write_ns("min_ns", tally, histogram->min_ns);
    write_ns("mean_ns", tally, count ? (int64_t)(tally->sum_ns / count) : UNKNOWN);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        write_ns(quantiles[i].name, tally, histogram_quantile(histogram, quantiles[i].q));
    write_ns("max_ns", tally, histogram->max_ns);
}

/* The listening end only counts. */
static void count_answers(struct exchange *exchange)
{
    uint64_t total = 0;
    for (int i = 0; i < exchange->threads.count; i++)
        total += atomic_load_explicit(&exchange->answers[i], memory_order_relaxed);
    out_format(",\"count\":%llu", (unsigned long long)(total - series.answered));
    series.answered = total;
}

static void write_interval(struct exchange *exchange, int64_t now)
{
    const struct flow_threads *threads = &exchange->threads;
    event_begin(threads->job, "exchanges");
    out_format(",\"start_s\":%.9f,\"length_s\":%.9f",
               ns_seconds(series.times.last_ns - threads->start_ns),
               ns_seconds(now - series.times.last_ns));
    if (threads->params->listens) {
        count_answers(exchange);
    } else {
        memset(&series.tally, 0, sizeof series.tally);
        for (int i = 0; i < threads->count; i++)
            take(&exchange->requesters[i]);
        out_format(",");
        write_quantiles(&series.tally);
        write_lost(exchange, series.tally.lost);
    }
    event_end();
    series.times.last_ns = now;
}

int64_t exchange_intervals_tick(struct exchange *exchange)
{
    if (series.times.count == 0) {
        series.times.last_ns = exchange->threads.start_ns;
        set_deadline(exchange);
    }
    const int64_t now = now_ns();
    if (now >= series.times.next_ns)
        write_interval(exchange, now);
    while (series.times.next_ns <= now)
        set_deadline(exchange);
    return series.times.next_ns;
}

void exchange_intervals_end(struct exchange *exchange)
{
    const int64_t end_ns = exchange->threads.end_ns;
    if (exchange->params.interval_s > 0 && end_ns > series.times.last_ns)
        write_interval(exchange, end_ns);
}

static void write_requester(const struct exchange *exchange, const struct requester *requester)
{
    out_format(",");
    write_quantiles(&requester->measured);
    write_lost(exchange, requester->measured.lost);
    out_format(",\"late\":%llu,\"unsent\":%llu", (unsigned long long)requester->late,
               (unsigned long long)requester->unsent);
}

static void write_flows(const struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    out_format(",\"flows\":[");
    for (int i = 0; i < threads->count; i++) {
        out_format("%s{\"flow\":%d", i ? "," : "", i);
        if (threads->params->listens)
            out_format(",\"count\":%llu", (unsigned long long)exchange->answers[i]);
        else
            write_requester(exchange, &exchange->requesters[i]);
        threads_write_one(&threads->of[i]);
        out_format("}");
    }
    out_format("]");
}

/* The same exchanges, from the due time of each. */
static void write_response(const struct tally *response)
{
    out_format(",\"response\":{");
    write_quantiles(response);
    out_format(",");
    histogram_write(&response->histogram);
    out_format("}");
}

/* All flows together. */
static void write_totals(const struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    static struct tally all, response;
    uint64_t late = 0, unsent = 0;
    int64_t last_ns = 0;
    memset(&all, 0, sizeof all);
    memset(&response, 0, sizeof response);
    for (int i = 0; i < threads->count; i++) {
        const struct requester *requester = &exchange->requesters[i];
        tally_merge(&all, &requester->measured);
        tally_merge(&response, &requester->response);
        late += requester->late;
        unsent += requester->unsent;
        if (requester->last_ns > last_ns)
            last_ns = requester->last_ns;
    }
    const int64_t begun_ns = threads->start_ns + seconds_ns(exchange->params.warmup_s);
    out_format(",\"elapsed_s\":%.9f", last_ns > begun_ns ? ns_seconds(last_ns - begun_ns) : 0.0);
    out_format(",");
    write_quantiles(&all);
    write_lost(exchange, all.lost);
    out_format(",\"late\":%llu,\"unsent\":%llu,", (unsigned long long)late,
               (unsigned long long)unsent);
    histogram_write(&all.histogram);
    if (exchange->params.rate_per_s > 0)
        write_response(&response);
}

void exchange_write_result(const struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    threads_write_begin(threads);
    if (threads->params->listens) {
        uint64_t count = 0;
        for (int i = 0; i < threads->count; i++)
            count += exchange->answers[i];
        out_format(",\"elapsed_s\":%.9f,\"count\":%llu", threads->elapsed_s,
                   (unsigned long long)count);
    } else {
        write_totals(exchange);
    }
    write_flows(exchange);
    threads_write_end(threads);
}
