#include "exchange.h"

#include "clock.h"
#include "pages.h"
#include "probe.h"

#include <math.h>
#include <stdio.h>

/* How long after its end the last exchange may take. */
#define DRAIN_S 60.0

static struct exchange_params params; /* of the job that was read last */
static struct exchange exchange;

static const char *const protocols[] = {"tcp", "tcp-connect", "udp", "icmp", NULL};
static const struct field fields[] = {
#define FIELDS_OF struct exchange_params
    SIZE("request_size", request_size, 1, 1 << 30, 1),
    SIZE("response_size", response_size, 1, 1 << 30, 1),
    WORD("protocol", protocol, protocols, TCP),
    WHOLE("probe_port", probe_port, 0, 65535, 0),
    NUMBER("loss_threshold_s", loss_threshold_s, SHORTEST_S, 60, 1),
    NUMBER("duration_s", duration_s, SHORTEST_S, LONGEST_S, NEEDED),
    NUMBER("interval_s", interval_s, SHORTEST_S, LONGEST_S, 0),
    NUMBER("warmup_s", warmup_s, 0, LONGEST_S, 0),
    NUMBER("rate_per_s", rate_per_s, 1e-3, 1e6, 0),
    NUMBER("gap_s", gap_s, 0, 1000, 0),
    FIELDS_END,
#undef FIELDS_OF
};

/* A request beside the connection has a header, and so has the answer of a datagram. */
static bool check_sizes(char *problem)
{
    const bool datagrams = protocol_is_datagrams(params.protocol);
    const uint64_t low = PROBE_HEADER_SIZE;
    const uint64_t high = datagrams ? PROBE_MAX_BYTES : 1 << 30;
    const bool fits = params.request_size >= low && params.request_size <= high &&
                      (!datagrams || (params.response_size >= low && params.response_size <= high));
    if (params.protocol == TCP || fits)
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be numbers from %llu to %llu with this protocol",
             datagrams ? "request_size and response_size" : "request_size", (unsigned long long)low,
             (unsigned long long)high);
    return false;
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    params = (struct exchange_params){.link.handshake.kind = HANDSHAKE_EXCHANGE};
    if (!link_read(command, &params.link, problem) ||
        !fields_read(command, fields, &params, problem) || !check_sizes(problem))
        return false;
    if (params.rate_per_s > 0 && params.gap_s > 0)
        snprintf(problem, PROBLEM_SIZE, "give rate_per_s or gap_s, not both");
    return params.rate_per_s == 0 || params.gap_s == 0;
}

static size_t sent_size(const struct flow_threads *threads)
{
    return sizeof *exchange.sent_ns * MAX_UNANSWERED * (size_t)threads->count;
}

static bool prepare_requesters(struct flow_threads *threads)
{
    exchange.requesters =
        threads_map(threads, sizeof *exchange.requesters * (size_t)threads->count, MAP_POPULATE);
    if (!exchange.requesters)
        return false;
    for (int i = 0; i < threads->count; i++)
        pthread_mutex_init(&exchange.requesters[i].mutex, NULL);
    if (!protocol_is_datagrams(exchange.params.protocol))
        return true;
    exchange.sent_ns = threads_map(threads, sent_size(threads), MAP_POPULATE);
    for (int i = 0; exchange.sent_ns && i < threads->count; i++)
        exchange.requesters[i].sent_ns = exchange.sent_ns + (size_t)i * MAX_UNANSWERED;
    return exchange.sent_ns != NULL;
}

static bool prepare(struct flow_threads *threads)
{
    threads_set_messages(threads);
    exchange_intervals_begin();
    return (threads->params->listens || prepare_requesters(threads)) &&
           (exchange.params.protocol == TCP || probe_open(&exchange));
}

static int64_t tick(struct flow_threads *threads)
{
    (void)threads;
    return exchange_intervals_tick(&exchange);
}

static const struct flow_work work = {.prepare = prepare, .run = exchange_work, .tick = tick};

static void release_memory(void)
{
    if (exchange.requesters)
        munmap(exchange.requesters, sizeof *exchange.requesters * (size_t)exchange.threads.count);
    if (exchange.sent_ns)
        munmap(exchange.sent_ns, sent_size(&exchange.threads));
    exchange.requesters = NULL;
    exchange.sent_ns = NULL;
}

static bool run(struct job *job)
{
    struct flow_threads *threads = &exchange.threads;
    const double pause_s = params.rate_per_s > 0 ? 1 / params.rate_per_s : params.gap_s;
    release_memory();
    exchange.params = params;
    exchange.refused = 0;
    exchange.params.link.handshake.duration_ms = (uint32_t)lround(params.duration_s * 1000);
    exchange.params.link.handshake.warmup_ms = (uint32_t)lround(params.warmup_s * 1000);
    for (int i = 0; i < MAX_FLOWS; i++) {
        exchange.answers[i] = 0;
        exchange.probes[i].fd = -1;
    }
    threads->work = &work;
    threads->stall_limit_s = params.link.stall_timeout_s + pause_s;
    threads->total_limit_s = params.warmup_s + params.duration_s + DRAIN_S + pause_s;
    /* A path may lose all datagrams; whether the connection works is checked at its end. */
    if (protocol_is_datagrams(params.protocol))
        threads->stall_limit_s += params.warmup_s + params.duration_s + params.loss_threshold_s;
    const bool ok = threads_run(threads, job, &exchange.params.link);
    probe_close(&exchange);
    threads->link.refused += exchange.refused;
    if (ok)
        exchange_intervals_end(&exchange);
    else
        release_memory();
    return ok;
}

static void write_result(const struct job *job)
{
    (void)job;
    exchange_write_result(&exchange);
    release_memory();
}

const struct kind exchange_kind = {"exchange", false, read_params, run, write_result, false};
