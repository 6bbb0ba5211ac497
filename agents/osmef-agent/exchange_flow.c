/* The threads of an exchange: the data path, and nothing else. */
#include "clock.h"
#include "exchange.h"

#include <math.h>

/* Larger messages go through this in pieces. */
#define PIECE_SIZE ((size_t)64 * 1024)
/* A connecting end that has been killed resets its flows; this finds one that ended them early. */
#define EARLY_SLACK_S 1.0

static unsigned char payload[PIECE_SIZE];
/* What comes is not kept: a round trip is timed, not checked. */
static _Thread_local unsigned char scratch[PIECE_SIZE];

static bool send_message(struct hand *hand, uint64_t size)
{
    while (size > PIECE_SIZE) {
        if (!hand_send(hand, payload, PIECE_SIZE))
            return false;
        size -= PIECE_SIZE;
    }
    return hand_send(hand, payload, size);
}

static bool receive_message(struct hand *hand, uint64_t size)
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
}

/* When a flow's requests are due. */
struct schedule {
    int64_t origin_ns;
    int64_t measured_ns; /* what is due before belongs to the warm-up */
    int64_t end_ns;      /* nothing is due from here on */
    double period_ns;    /* 0: each is due when the one before is over */
    int64_t gap_ns;
};

/* The flows take turns within a period, so that they do not all ask at once. */
static struct schedule make_schedule(const struct hand *hand, const struct exchange_params *params)
{
    const int64_t now = now_ns();
    struct schedule schedule = {
        .origin_ns = now,
        .measured_ns = now + seconds_ns(params->warmup_s),
        .end_ns = now + seconds_ns(params->warmup_s + params->duration_s),
        .gap_ns = seconds_ns(params->gap_s),
    };
    if (params->rate_per_s > 0) {
        schedule.period_ns = 1e9 / params->rate_per_s;
        schedule.origin_ns += (int64_t)(schedule.period_ns * hand->index / hand->crew->count);
    }
    return schedule;
}

/* An exchange that was due, and when it was over. */
static void note(struct asker *asker, const struct schedule *schedule, int64_t due_ns,
                 int64_t over_ns, bool late)
{
    pthread_mutex_lock(&asker->mutex);
    tally_add(&asker->interval[asker->current], over_ns - due_ns);
    pthread_mutex_unlock(&asker->mutex);
    if (due_ns < schedule->measured_ns)
        return;
    tally_add(&asker->measured, over_ns - due_ns);
    asker->late += late;
    asker->last_ns = over_ns;
}

/* Nothing is left out: what was due before the end and never sent is counted. */
static uint64_t count_unsent(const struct schedule *schedule, uint64_t sent)
{
    const double due = ceil((double)(schedule->end_ns - schedule->origin_ns) / schedule->period_ns);
    return due > (double)sent ? (uint64_t)due - sent : 0;
}

static bool ask(struct hand *hand, struct exchange *exchange, struct asker *asker)
{
    const struct exchange_params *params = &exchange->params;
    const struct schedule schedule = make_schedule(hand, params);
    int64_t now = now_ns();
    int64_t due = now;
    uint64_t sent = 0;
    for (;; sent++) {
        /* From its due time on, so that a request that has to wait for the one before it counts
         * the waiting (Tene, "How NOT to Measure Latency": coordinated omission). */
        if (schedule.period_ns > 0)
            due = schedule.origin_ns + (int64_t)((double)sent * schedule.period_ns);
        if (due >= schedule.end_ns || now >= schedule.end_ns || hand_is_cancelled(hand))
            break;
        const bool late = schedule.period_ns > 0 && now > due;
        if (due > now && !hand_wait_until(hand, due))
            return false;
        if (schedule.period_ns == 0)
            due = now_ns(); /* what the agent does between two requests is not the network's */
        if (!send_message(hand, params->request_size) ||
            !receive_message(hand, params->response_size))
            return false;
        now = now_ns();
        note(asker, &schedule, due, now, late);
        due = now + schedule.gap_ns;
    }
    if (schedule.period_ns > 0)
        asker->unsent = count_unsent(&schedule, sent);
    /* The next one may have been due long after the end. */
    return hand_wait_until(hand, schedule.end_ns) && hand_end(hand);
}

static bool answer(struct hand *hand, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    _Atomic uint64_t *const count = &exchange->answers[hand->index];
    const double least_s = params->warmup_s + params->duration_s - EARLY_SLACK_S;
    uint64_t answered = 0;
    const size_t piece =
        params->request_size < PIECE_SIZE ? (size_t)params->request_size : PIECE_SIZE;
    ssize_t n;
    /* The peer may end the flow here, and only here. */
    while ((n = hand_receive_some(hand, scratch, piece)) > 0) {
        if (!receive_message(hand, params->request_size - (uint64_t)n) ||
            !send_message(hand, params->response_size))
            return false;
        atomic_store_explicit(count, ++answered, memory_order_relaxed);
    }
    if (n < 0 || hand_is_cancelled(hand)) /* our own shutdown() looks like the peer's end */
        return false;
    const double lasted_s = ns_seconds(now_ns() - hand->crew->start_ns);
    if (answered == 0 || lasted_s < least_s)
        return hand_fail(hand, "reset", "the peer ended the flow after %.2f s, not %g s", lasted_s,
                         params->warmup_s + params->duration_s);
    return hand_end_too(hand);
}

bool exchange_work(struct hand *hand)
{
    struct exchange *exchange = (struct exchange *)hand->crew; /* its first member */
    if (hand->crew->params->listens)
        return answer(hand, exchange);
    return ask(hand, exchange, &exchange->askers[hand->index]);
}
