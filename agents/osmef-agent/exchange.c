#include "exchange.h"

#include "clock.h"
#include "probe.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* How long after its end the last exchange may take. */
#define DRAIN_S 60.0

static struct exchange_params params; /* of the job that was read last */
static struct exchange exchange;

static bool read_sizes(const struct json_object *command, char *problem)
{
    static const char *const keys[] = {"request_size", "response_size"};
    uint64_t *const sizes[] = {&params.request_size, &params.response_size};
    for (int i = 0; i < 2; i++) {
        if (!field_size_or(command, keys[i], 1, sizes[i], problem))
            return false;
        if (*sizes[i] < 1 || *sizes[i] > 1 << 30) {
            snprintf(problem, PROBLEM_SIZE, "%s must be a number from 1 to %d", keys[i], 1 << 30);
            return false;
        }
    }
    return true;
}

/* A request beside the connection has a header, and a datagram has an answer with one. */
static bool check_sizes(char *problem)
{
    const bool datagrams = protocol_is_datagrams(params.protocol);
    const uint64_t low = PROBE_HEADER_SIZE;
    const uint64_t high = datagrams ? PROBE_MOST_BYTES : 1 << 30;
    const bool fits = params.request_size >= low && params.request_size <= high &&
                      (!datagrams || (params.response_size >= low && params.response_size <= high));
    if (params.protocol == TCP || fits)
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be numbers from %llu to %llu with this protocol",
             datagrams ? "request_size and response_size" : "request_size", (unsigned long long)low,
             (unsigned long long)high);
    return false;
}

static bool read_probe(const struct json_object *command, char *problem)
{
    static const char *const protocols[] = {"tcp", "tcp-connect", "udp", "icmp", NULL};
    int protocol;
    if (!field_word_or(command, "protocol", protocols, TCP, &protocol, problem) ||
        !field_whole_or(command, "probe_port", 0, 65535, 0, &params.probe_port, problem) ||
        !field_number_or(command, "loss_threshold_s", SHORTEST_S, 60, 1, &params.loss_threshold_s,
                         problem))
        return false;
    params.protocol = (enum protocol)protocol;
    return check_sizes(problem);
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    params = (struct exchange_params){.link.opening.kind = OPENING_EXCHANGE};
    if (!link_read(command, &params.link, problem) || !read_sizes(command, problem) ||
        !read_probe(command, problem) ||
        !field_number(command, "duration_s", SHORTEST_S, LONGEST_S, &params.duration_s, problem) ||
        !field_number_or(command, "interval_s", SHORTEST_S, LONGEST_S, 0, &params.interval_s,
                         problem) ||
        !field_number_or(command, "warmup_s", 0, LONGEST_S, 0, &params.warmup_s, problem) ||
        !field_number_or(command, "rate_per_s", 1e-3, 1e6, 0, &params.rate_per_s, problem) ||
        !field_number_or(command, "gap_s", 0, 1000, 0, &params.gap_s, problem))
        return false;
    if (params.rate_per_s > 0 && params.gap_s > 0)
        snprintf(problem, PROBLEM_SIZE, "give rate_per_s or gap_s, not both");
    return params.rate_per_s == 0 || params.gap_s == 0;
}

/* Pages that are touched now cost no time in the exchanges. */
static void *get_memory(struct crew *crew, size_t size)
{
    void *const memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    job_fail(crew->job, "resource", -1, "no memory for %d flows: %s", crew->count, strerror(errno));
    return NULL;
}

static size_t sent_size(const struct crew *crew)
{
    return sizeof *exchange.sent_ns * MOST_UNANSWERED * (size_t)crew->count;
}

static bool prepare_askers(struct crew *crew)
{
    exchange.askers = get_memory(crew, sizeof *exchange.askers * (size_t)crew->count);
    if (!exchange.askers)
        return false;
    for (int i = 0; i < crew->count; i++)
        pthread_mutex_init(&exchange.askers[i].mutex, NULL);
    if (!protocol_is_datagrams(exchange.params.protocol))
        return true;
    exchange.sent_ns = get_memory(crew, sent_size(crew));
    for (int i = 0; exchange.sent_ns && i < crew->count; i++)
        exchange.askers[i].sent_ns = exchange.sent_ns + (size_t)i * MOST_UNANSWERED;
    return exchange.sent_ns != NULL;
}

static bool prepare(struct crew *crew)
{
    exchange_intervals_begin();
    return (crew->params->listens || prepare_askers(crew)) &&
           (exchange.params.protocol == TCP || probe_open(&exchange));
}

static int64_t tick(struct crew *crew)
{
    (void)crew;
    return exchange_intervals_tick(&exchange);
}

static const struct trade trade = {prepare, exchange_work, tick};

static void release_memory(void)
{
    if (exchange.askers)
        munmap(exchange.askers, sizeof *exchange.askers * (size_t)exchange.crew.count);
    if (exchange.sent_ns)
        munmap(exchange.sent_ns, sent_size(&exchange.crew));
    exchange.askers = NULL;
    exchange.sent_ns = NULL;
}

static bool run(struct job *job)
{
    struct crew *crew = &exchange.crew;
    const double pause_s = params.rate_per_s > 0 ? 1 / params.rate_per_s : params.gap_s;
    release_memory();
    exchange.params = params;
    exchange.strangers = 0;
    exchange.params.link.opening.duration_ms = (uint32_t)lround(params.duration_s * 1000);
    exchange.params.link.opening.warmup_ms = (uint32_t)lround(params.warmup_s * 1000);
    for (int i = 0; i < MAX_FLOWS; i++) {
        exchange.answers[i] = 0;
        exchange.probes[i].fd = -1;
    }
    crew->trade = &trade;
    crew->patience_s = params.link.stall_timeout_s + pause_s;
    crew->longest_s = params.warmup_s + params.duration_s + DRAIN_S + pause_s;
    /* A path may lose all datagrams; that the connection lives shows at its end. */
    if (protocol_is_datagrams(params.protocol))
        crew->patience_s += params.warmup_s + params.duration_s + params.loss_threshold_s;
    const bool ok = crew_run(crew, job, &exchange.params.link);
    probe_close(&exchange);
    crew->link.refused += exchange.strangers;
    if (ok)
        exchange_intervals_end(&exchange);
    else
        release_memory();
    return ok;
}

static void tell_result(const struct job *job)
{
    (void)job;
    exchange_tell_result(&exchange);
    release_memory();
}

const struct kind exchange_kind = {"exchange", false, read_params, run, tell_result, false};
