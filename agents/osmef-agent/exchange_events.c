/* What happens in an exchange as events of the protocol. */
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

/* Takes what the flow has noted since the last time. */
static void take(struct asker *asker)
{
    pthread_mutex_lock(&asker->mutex);
    struct tally *taken = &asker->interval[asker->current];
    asker->current = !asker->current;
    pthread_mutex_unlock(&asker->mutex);
    tally_merge(&series.tally, taken);
    memset(taken, 0, sizeof *taken);
}

static void tell_ns(const char *name, const struct tally *tally, int64_t ns)
{
    out_format(",\"%s\":", name);
    tell_value("", tally->histogram.count ? ns : UNKNOWN);
}

/* A stream loses nothing: TCP sends it again. */
static void tell_lost(const struct exchange *exchange, uint64_t lost)
{
    const bool known = protocol_is_datagrams(exchange->params.protocol);
    tell_value(",\"lost\":", known ? (int64_t)lost : UNKNOWN);
}

static void tell_quantiles(const struct tally *tally)
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
    tell_ns("min_ns", tally, histogram->min_ns);
    tell_ns("mean_ns", tally, count ? (int64_t)(tally->sum_ns / count) : UNKNOWN);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        tell_ns(quantiles[i].name, tally, histogram_quantile(histogram, quantiles[i].q));
    tell_ns("max_ns", tally, histogram->max_ns);
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

static void tell_interval(struct exchange *exchange, int64_t now)
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
            take(&exchange->askers[i]);
        out_format(",");
        tell_quantiles(&series.tally);
        tell_lost(exchange, series.tally.lost);
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
        tell_interval(exchange, now);
    while (series.times.next_ns <= now)
        set_deadline(exchange);
    return series.times.next_ns;
}

void exchange_intervals_end(struct exchange *exchange)
{
    const int64_t end_ns = exchange->threads.end_ns;
    if (exchange->params.interval_s > 0 && end_ns > series.times.last_ns)
        tell_interval(exchange, end_ns);
}

static void tell_asker(const struct exchange *exchange, const struct asker *asker)
{
    out_format(",");
    tell_quantiles(&asker->measured);
    tell_lost(exchange, asker->measured.lost);
    out_format(",\"late\":%llu,\"unsent\":%llu", (unsigned long long)asker->late,
               (unsigned long long)asker->unsent);
}

static void tell_flows(const struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    out_format(",\"flows\":[");
    for (int i = 0; i < threads->count; i++) {
        out_format("%s{\"flow\":%d", i ? "," : "", i);
        if (threads->params->listens)
            out_format(",\"count\":%llu", (unsigned long long)exchange->answers[i]);
        else
            tell_asker(exchange, &exchange->askers[i]);
        threads_tell_one(&threads->of[i]);
        out_format("}");
    }
    out_format("]");
}

/* The same exchanges, each from when it was due. */
static void tell_response(const struct tally *response)
{
    out_format(",\"response\":{");
    tell_quantiles(response);
    out_format(",");
    histogram_tell(&response->histogram);
    out_format("}");
}

/* All flows together. */
static void tell_asked(const struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    static struct tally all, response;
    uint64_t late = 0, unsent = 0;
    int64_t last_ns = 0;
    memset(&all, 0, sizeof all);
    memset(&response, 0, sizeof response);
    for (int i = 0; i < threads->count; i++) {
        const struct asker *asker = &exchange->askers[i];
        tally_merge(&all, &asker->measured);
        tally_merge(&response, &asker->response);
        late += asker->late;
        unsent += asker->unsent;
        if (asker->last_ns > last_ns)
            last_ns = asker->last_ns;
    }
    const int64_t begun_ns = threads->start_ns + seconds_ns(exchange->params.warmup_s);
    out_format(",\"elapsed_s\":%.9f", last_ns > begun_ns ? ns_seconds(last_ns - begun_ns) : 0.0);
    out_format(",");
    tell_quantiles(&all);
    tell_lost(exchange, all.lost);
    out_format(",\"late\":%llu,\"unsent\":%llu,", (unsigned long long)late,
               (unsigned long long)unsent);
    histogram_tell(&all.histogram);
    if (exchange->params.rate_per_s > 0)
        tell_response(&response);
}

void exchange_tell_result(const struct exchange *exchange)
{
    const struct flow_threads *threads = &exchange->threads;
    threads_tell_begin(threads);
    if (threads->params->listens) {
        uint64_t count = 0;
        for (int i = 0; i < threads->count; i++)
            count += exchange->answers[i];
        out_format(",\"elapsed_s\":%.9f,\"count\":%llu", threads->elapsed_s,
                   (unsigned long long)count);
    } else {
        tell_asked(exchange);
    }
    tell_flows(exchange);
    threads_tell_end(threads);
}
