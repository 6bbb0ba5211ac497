#include "bulk.h"

#include "bulk_events.h"
#include "transfer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char *const bulk_modes[] = {"copy", "zerocopy", "discard", "zerocopy-discard", NULL};
const char *const bulk_directions[] = {"forward", "reverse", "both", NULL};

static struct bulk_params params; /* of the job that was read last */
static struct bulk bulk;

static bool read_pins(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    char text[PINS_SIZE];
    if (!field_text_or(command, "cpus", "", text, sizeof text, problem))
        return false;
    if (!text[0] || pins_read(text, &params.pins))
        return true;
    snprintf(problem, PROBLEM_SIZE, "cpus must be a list like 0,2,5 of at most %d CPUs", MAX_PINS);
    return false;
}

static bool read_amount(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    int direction;
    if (!field_word_or(command, "direction", bulk_directions, FORWARD, &direction, problem))
        return false;
    params.link.opening.direction = (enum direction)direction;
    return field_size_or(command, "bytes", 0, &params.link.opening.bytes, problem) &&
           field_number(command, "duration_s", SHORTEST_S, LONGEST_S, &params.duration_s,
                        problem) &&
           field_number_or(command, "warmup_s", 0, LONGEST_S, 0, &params.warmup_s, problem) &&
           field_number(command, "interval_s", SHORTEST_S, LONGEST_S, &params.interval_s,
                        problem) &&
           field_flag_or(command, "until_stopped", false, &params.until_stopped, problem) &&
           field_number_or(command, "active_s", SHORTEST_S, LONGEST_S, 0, &params.active_s,
                           problem) &&
           field_number_or(command, "idle_s", SHORTEST_S, LONGEST_S, 0, &params.idle_s, problem);
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    params = (struct bulk_params){.link.opening.kind = OPENING_BULK};
    if (!link_read(command, &params.link, problem) || !read_amount(command, problem) ||
        !field_whole_or(command, "threads", 1, MAX_FLOWS, 0, &params.threads, problem) ||
        !field_word_or(command, "mode", bulk_modes, MODE_COPY, &params.mode, problem) ||
        !read_pins(command, problem) || !classes_read(command, &params.classes, problem))
        return false;
    if (params.link.opening.direction == BOTH)
        params.link.opening.flows *= 2;
    const char *misfit = bulk_misfit(&params);
    if (misfit)
        snprintf(problem, PROBLEM_SIZE, "%s", misfit);
    return !misfit;
}

const char *bulk_misfit(const struct bulk_params *wanted)
{
    if (wanted->link.opening.flows > MAX_FLOWS)
        return "flows must be at most 500 in both directions: each way has its own connections";
    if (wanted->idle_s > 0 && wanted->active_s <= 0 && !wanted->link.listens)
        return "idle_s needs active_s, the time between the pauses";
    if (wanted->active_s > 0 && wanted->idle_s <= 0)
        return "active_s needs idle_s, the length of the pauses";
    if (wanted->until_stopped && wanted->active_s > 0)
        return "until_stopped is for flows that don't pause";
    return NULL;
}

bool bulk_connects(const struct bulk *b)
{
    return !b->params.link.listens;
}

bool bulk_sends(const struct bulk *b)
{
    return b->ways[SENDER].count > 0;
}

double bulk_sending_s(const struct bulk *b)
{
    return b->params.warmup_s + b->params.duration_s;
}

static void prepare(struct job *job, const struct bulk_params *wanted)
{
    bulk.job = job;
    bulk.params = *wanted;
    bulk.params.link.opening.duration_ms = (uint32_t)lround(wanted->duration_s * 1000);
    bulk.params.link.opening.warmup_ms = (uint32_t)lround(wanted->warmup_s * 1000);
    bulk.start_ns = 0;
    bulk.cancelled = false;
    bulk.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bulk.wake < 0)
        job_fail(job, "resource", -1, "no event descriptor: %s", strerror(errno));
}

/* Only what is used is written: untouched pages of the arrays stay out of memory. */
static void set_way(enum role role, int first, int count)
{
    struct way *way = &bulk.ways[role];
    way->bulk = &bulk;
    way->role = role;
    way->count = count;
    way->flows = &bulk.flows[first];
    way->threads = bulk.params.threads && bulk.params.threads < count ? bulk.params.threads : count;
    way->gate = 0;
    way->begun = way->ended = 0;
    way->warm.taken = way->all_begun.taken = way->first_ended.taken = false;
    way->common_from = NULL;
    for (int i = 0; i < count; i++) {
        way->flows[i] = (struct flow){
            .way = way, .index = i, .connection = first + i, .fd = bulk.link.fds[first + i]};
        way->workers[i] = (struct worker){.way = way, .index = i};
    }
}

/* The first half of the connections of both directions goes forward. */
static void set_ways(void)
{
    const enum direction direction = bulk.params.link.opening.direction;
    const int forward = direction == FORWARD   ? bulk.link.flows
                        : direction == REVERSE ? 0
                                               : bulk.link.flows / 2;
    const enum role role = bulk.params.link.listens ? RECEIVER : SENDER;
    set_way(role, 0, forward);
    set_way(role == SENDER ? RECEIVER : SENDER, forward, bulk.link.flows - forward);
}

static bool give_classes(void)
{
    for (int role = 0; role < ROLES; role++)
        for (int i = 0; i < bulk.ways[role].count; i++)
            if (!classes_apply(bulk.job, &bulk.params.classes, bulk.ways[role].flows[i].fd, i))
                return false;
    return true;
}

static bool open_flows(void)
{
    struct bulk_params *p = &bulk.params;
    if (!pins_allowed(bulk.job, &p->pins) || !link_open(bulk.job, &p->link, &bulk.link))
        return false;
    if (bulk.job->by_hand) { /* the connecting end has said how long */
        p->duration_s = p->link.opening.duration_ms / 1000.0;
        p->warmup_s = p->link.opening.warmup_ms / 1000.0;
    }
    bulk.is_warm = p->warmup_s <= 0;
    set_ways();
    if (give_classes())
        return true;
    link_close(&bulk.link);
    return false;
}

const struct bulk *bulk_run(struct job *job, const struct bulk_params *wanted,
                            const struct bulk_view *view)
{
    prepare(job, wanted);
    bulk.view = view;
    bool ok = !job->failure.kind && open_flows();
    if (ok) {
        ok = transfer(&bulk);
        link_close(&bulk.link);
    }
    if (bulk.wake >= 0)
        close(bulk.wake);
    return ok ? &bulk : NULL;
}

static bool run(struct job *job)
{
    return bulk_run(job, &params, &bulk_event_view) != NULL;
}

static void tell_result(const struct job *job)
{
    (void)job;
    bulk_tell_result(&bulk);
}

const struct kind bulk_kind = {"bulk", false, read_params, run, tell_result, false};
