#include "bulk.h"

#include "bulk_events.h"
#include "transfer.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct bulk_params params; /* of the job that was read last */
static struct bulk bulk;

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    params = (struct bulk_params){.link.opening.kind = OPENING_BULK};
    return link_read(command, &params.link, problem) &&
           field_number(command, "duration_s", SHORTEST_S, LONGEST_S, &params.duration_s,
                        problem) &&
           field_number(command, "interval_s", SHORTEST_S, LONGEST_S, &params.interval_s, problem);
}

static void prepare(struct job *job, const struct bulk_params *wanted)
{
    memset(&bulk, 0, sizeof bulk);
    bulk.job = job;
    bulk.params = *wanted;
    bulk.role = wanted->link.listens ? RECEIVER : SENDER;
    bulk.params.link.opening.duration_ms = (uint32_t)lround(wanted->duration_s * 1000);
    bulk.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bulk.wake < 0)
        job_fail(job, "resource", -1, "no event descriptor: %s", strerror(errno));
}

static bool open_flows(void)
{
    if (!link_open(bulk.job, &bulk.params.link, &bulk.link))
        return false;
    bulk.count = bulk.link.flows;
    if (bulk.job->by_hand) /* the sender has said how long */
        bulk.params.duration_s = bulk.params.link.opening.duration_ms / 1000.0;
    for (int i = 0; i < bulk.count; i++) {
        bulk.flows[i].bulk = &bulk;
        bulk.flows[i].index = i;
        bulk.flows[i].fd = bulk.link.fds[i];
    }
    return true;
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

const struct kind bulk_kind = {"bulk", false, read_params, run, tell_result};
