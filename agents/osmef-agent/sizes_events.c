/* What a size sweep finds as events of the protocol. */
#include "events.h"
#include "out.h"
#include "sizes.h"

static const char *const mode_names[] = {"pingpong", "stream", "both"};

/* In a ping-pong a message takes half of what a repetition does. */
static double message_s(const struct sizes *sizes, double repetition_s)
{
    return sizes->params.mode == PINGPONG ? repetition_s / 2 : repetition_s;
}

static void tell_times(const struct sizes *sizes, int point, const char *name, size_t offset)
{
    const size_t flows = (size_t)sizes->crew.count;
    out_format(",\"%s\":", name);
    for (size_t i = 0; i < flows; i++) {
        const char *spread = (const char *)&sizes->spreads[(size_t)point * flows + i];
        const double repetition_s = *(const double *)(const void *)(spread + offset);
        out_format("%s%.5f", i ? "," : "[", 1e6 * message_s(sizes, repetition_s));
    }
    out_format("]");
}

void sizes_tell_point(const struct sizes *sizes, int number)
{
    const struct point *point = &sizes->points[number];
    event_begin(sizes->crew.job, "point");
    out_format(",\"size\":%llu,\"repetitions\":%llu,\"trials\":%d", (unsigned long long)point->size,
               (unsigned long long)point->repetitions, point->trials);
    tell_times(sizes, number, "time_min_us", offsetof(struct spread, min_s));
    tell_times(sizes, number, "time_median_us", offsetof(struct spread, median_s));
    tell_times(sizes, number, "time_max_us", offsetof(struct spread, max_s));
    event_end();
}

void sizes_tell_result(const struct sizes *sizes)
{
    const struct crew *crew = &sizes->crew;
    crew_tell_begin(crew);
    out_format(",\"elapsed_s\":%.9f,\"mode\":\"%s\",\"check\":%s", crew->elapsed_s,
               mode_names[sizes->params.mode], sizes->params.check ? "true" : "false");
    if (!crew->params->listens)
        out_format(",\"points\":%d,\"complete\":%s", sizes->done,
                   sizes->complete ? "true" : "false");
    out_format(",\"flows\":[");
    for (int i = 0; i < crew->count; i++) {
        out_format("%s{\"flow\":%d,\"messages\":%llu", i ? "," : "", i,
                   (unsigned long long)sizes->movers[i].messages);
        crew_tell_hand(&crew->hands[i]);
        out_format("}");
    }
    out_format("]");
    crew_tell_end(crew);
}
