/* The threads of an exchange: the data path, and nothing else. */
#include "clock.h"
#include "exchange.h"
#include "probe.h"
#include "schedule.h"

/* Larger messages go through this in pieces. */
#define PIECE_SIZE ((size_t)64 * 1024)
/* A connecting end that has been killed resets its flows; this finds one that ended them early. */
#define EARLY_SLACK_S 1.0

static _Thread_local unsigned char request[PIECE_SIZE];
/* What comes is not kept: a round trip is timed, not checked. */
static _Thread_local unsigned char scratch[PIECE_SIZE];

bool exchange_send(struct hand *hand, uint64_t size)
{
    while (size > PIECE_SIZE) {
        if (!hand_send(hand, request, PIECE_SIZE))
            return false;
        size -= PIECE_SIZE;
    }
    return hand_send(hand, request, size);
}

bool exchange_receive(struct hand *hand, uint64_t size)
{
    while (size > PIECE_SIZE) {
        if (!hand_receive(hand, scratch, PIECE_SIZE))
            return false;
        size -= PIECE_SIZE;
    }
    return hand_receive(hand, scratch, size);
}

void tally_add(struct tally *tally, int64_t ns)
{
    histogram_add(&tally->histogram, ns);
    tally->sum_ns += (uint64_t)ns;
}

void tally_merge(struct tally *tally, const struct tally *other)
{
    histogram_merge(&tally->histogram, &other->histogram);
    tally->sum_ns += other->sum_ns;
    tally->lost += other->lost;
}

static bool ask_one_by_one(struct hand *hand, struct exchange *exchange, struct asker *asker,
                           const struct schedule *schedule)
{
    const struct exchange_params *params = &exchange->params;
    const bool connects = params->protocol == TCP_CONNECT;
    int64_t now = now_ns();
    int64_t due = now;
    uint64_t sent = 0;
    for (;; sent++) {
        /* From its due time on, so that a request that has to wait for the one before it counts
         * the waiting (Tene, "How NOT to Measure Latency": coordinated omission). */
        if (schedule->period_ns > 0)
            due = schedule_due(schedule, sent);
        if (due >= schedule->end_ns || now >= schedule->end_ns || hand_is_cancelled(hand))
            break;
        if (connects && !probe_connection(hand, exchange))
            return false;
        const bool late = schedule->period_ns > 0 && now > due;
        if (due > now && !hand_wait_until(hand, due))
            return false;
        if (schedule->period_ns == 0)
            due = now_ns(); /* what the agent does between two requests is not the network's */
        if (connects && !probe_connect(hand, exchange))
            return false;
        if (connects)
            probe_header_write(hand, sent, request);
        if (!exchange_send(hand, params->request_size) ||
            !exchange_receive(hand, params->response_size))
            return false;
        now = now_ns();
        schedule_note(asker, schedule, due, now, late);
        due = now + schedule->gap_ns;
        probe_hang_up(hand);
    }
    if (schedule->period_ns > 0)
        asker->unsent = schedule_unsent(schedule, sent);
    /* The next one may have been due long after the end. */
    return hand_wait_until(hand, schedule->end_ns);
}

static bool ask(struct hand *hand, struct exchange *exchange)
{
    const enum protocol protocol = exchange->params.protocol;
    struct asker *asker = &exchange->askers[hand->index];
    if (protocol != TCP && !probe_begin(hand))
        return false;
    const struct schedule schedule = schedule_make(hand, &exchange->params);
    const bool ok = protocol_is_datagrams(protocol)
                        ? probe_ask_datagrams(hand, exchange, &schedule)
                        : ask_one_by_one(hand, exchange, asker, &schedule);
    probe_hang_up(hand);
    return ok && hand_end(hand);
}

/* Answers what comes on the flow's own connection. Returns true at its end. */
static bool answer_one_by_one(struct hand *hand, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    _Atomic uint64_t *const count = &exchange->answers[hand->index];
    uint64_t answered = 0;
    const size_t piece =
        params->request_size < PIECE_SIZE ? (size_t)params->request_size : PIECE_SIZE;
    ssize_t n;
    /* The peer may end the flow here, and only here. */
    while ((n = hand_receive_some(hand, scratch, piece)) > 0) {
        if (!exchange_receive(hand, params->request_size - (uint64_t)n) ||
            !exchange_send(hand, params->response_size))
            return false;
        atomic_store_explicit(count, ++answered, memory_order_relaxed);
    }
    return n == 0;
}

static bool answer_beside(struct hand *hand, struct exchange *exchange)
{
    return probe_begin(hand) &&
           (exchange->params.protocol == TCP_CONNECT ? probe_answer_connections(hand, exchange)
                                                     : probe_answer_datagrams(hand, exchange));
}

static bool answer(struct hand *hand, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    const double least_s = params->warmup_s + params->duration_s - EARLY_SLACK_S;
    const bool beside = params->protocol != TCP;
    const bool ok = beside ? answer_beside(hand, exchange) : answer_one_by_one(hand, exchange);
    if (!ok || hand_is_cancelled(hand)) /* our own shutdown() looks like the peer's end */
        return false;
    const double lasted_s = ns_seconds(now_ns() - hand->crew->start_ns);
    if ((!beside && exchange->answers[hand->index] == 0) || lasted_s < least_s)
        return hand_fail(hand, "reset", "the peer ended the flow after %.2f s, not %g s", lasted_s,
                         params->warmup_s + params->duration_s);
    return hand_end_too(hand);
}

bool exchange_work(struct hand *hand)
{
    struct exchange *exchange = (struct exchange *)hand->crew; /* its first member */
    return hand->crew->params->listens ? answer(hand, exchange) : ask(hand, exchange);
}
