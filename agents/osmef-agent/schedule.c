#include "schedule.h"

#include "clock.h"

#include <math.h>

struct schedule schedule_make(const struct hand *hand, const struct exchange_params *params)
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

int64_t schedule_due(const struct schedule *schedule, uint64_t request)
{
    return schedule->origin_ns + (int64_t)((double)request * schedule->period_ns);
}

void schedule_note(struct asker *asker, const struct schedule *schedule, int64_t due_ns,
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

void schedule_note_lost(struct asker *asker, const struct schedule *schedule, int64_t due_ns)
{
    pthread_mutex_lock(&asker->mutex);
    asker->interval[asker->current].lost++;
    pthread_mutex_unlock(&asker->mutex);
    asker->measured.lost += due_ns >= schedule->measured_ns;
}

uint64_t schedule_unsent(const struct schedule *schedule, uint64_t sent)
{
    const double due = ceil((double)(schedule->end_ns - schedule->origin_ns) / schedule->period_ns);
    return due > (double)sent ? (uint64_t)due - sent : 0;
}
