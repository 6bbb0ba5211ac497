/* Messages of an exchange: their due times and durations. */
#include "clock.h"
#include "exchange.h"

#include <math.h>

_Thread_local unsigned char exchange_request[EXCHANGE_PIECE];
_Thread_local unsigned char exchange_scratch[EXCHANGE_PIECE];

bool exchange_send(struct flow_thread *thread, uint64_t size)
{
    while (size > EXCHANGE_PIECE) {
        if (!thread_send(thread, exchange_request, EXCHANGE_PIECE))
            return false;
        size -= EXCHANGE_PIECE;
    }
    return thread_send(thread, exchange_request, size);
}

bool exchange_receive(struct flow_thread *thread, uint64_t size)
{
    while (size > EXCHANGE_PIECE) {
        if (!thread_receive(thread, exchange_scratch, EXCHANGE_PIECE))
            return false;
        size -= EXCHANGE_PIECE;
    }
    return thread_receive(thread, exchange_scratch, size);
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

struct schedule schedule_make(const struct flow_thread *thread,
                              const struct exchange_params *params)
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
        schedule.origin_ns +=
            (int64_t)(schedule.period_ns * thread->index / thread->threads->count);
    }
    return schedule;
}

int64_t schedule_due(const struct schedule *schedule, uint64_t request)
{
    return schedule->origin_ns + (int64_t)((double)request * schedule->period_ns);
}

void schedule_record(struct requester *requester, const struct schedule *schedule,
                     const struct moments *one, bool late)
{
    pthread_mutex_lock(&requester->mutex);
    tally_add(&requester->interval[requester->current], one->over_ns - one->sent_ns);
    pthread_mutex_unlock(&requester->mutex);
    if (one->due_ns < schedule->measured_ns)
        return;
    tally_add(&requester->measured, one->over_ns - one->sent_ns);
    if (schedule->period_ns > 0)
        tally_add(&requester->response, one->over_ns - one->due_ns);
    requester->late += late;
    requester->last_ns = one->over_ns;
}

void schedule_record_lost(struct requester *requester, const struct schedule *schedule,
                          int64_t due_ns)
{
    pthread_mutex_lock(&requester->mutex);
    requester->interval[requester->current].lost++;
    pthread_mutex_unlock(&requester->mutex);
    requester->measured.lost += due_ns >= schedule->measured_ns;
}

uint64_t schedule_unsent(const struct schedule *schedule, uint64_t sent)
{
    const double due = ceil((double)(schedule->end_ns - schedule->origin_ns) / schedule->period_ns);
    return due > (double)sent ? (uint64_t)due - sent : 0;
}
