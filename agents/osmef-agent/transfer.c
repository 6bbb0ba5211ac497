#include "transfer.h"

#include "clock.h"
#include "flow.h"
#include "sampler.h"
#include "watchdog.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

/* A sender that has been killed resets its flows; this finds one that ended them too early. First
 * segments may be lost and busy CPUs late, so the receiver's time may begin that much later. */
#define EARLY_SLACK_S 1.0

/* The endpoint's counters at the start. */
struct baseline {
    int64_t start_realtime_ns;
    struct cpu_time process;
    struct endpoint_time endpoint;
};

static void wait_event(struct bulk *bulk, int64_t until_ns)
{
    struct pollfd fds[2] = {[1] = {.fd = bulk->wake, .events = POLLIN}};
    eventfd_t count;
    control_wait(bulk->job->control, fds, 2, until_ns);
    if (fds[1].revents)
        eventfd_read(bulk->wake, &count);
}

static bool fail_flow(struct bulk *bulk, const struct flow *flow)
{
    if (flow->problem == ETIMEDOUT)
        return job_fail(bulk->job, "stalled", flow->index,
                        "the connection timed out; is the link up?");
    return job_fail(bulk->job, "reset", flow->index, "the peer closed the flow before its end: %s",
                    strerror(flow->problem));
}

static bool ended_early(const struct bulk *bulk, const struct flow *flow)
{
    return bulk->role == RECEIVER &&
           ns_seconds(flow->end_ns - bulk->start_ns) < bulk->params.duration_s - EARLY_SLACK_S;
}

/* Returns how many flows have ended; fails the job for the first that did not end well. */
static int count_ended(struct bulk *bulk)
{
    int ended = 0;
    for (int i = 0; i < bulk->count; i++) {
        const struct flow *flow = &bulk->flows[i];
        if (!atomic_load(&flow->has_ended))
            continue;
        ended++;
        if (flow->problem)
            fail_flow(bulk, flow);
        else if (ended_early(bulk, flow))
            job_fail(bulk->job, "reset", i, "the sender ended the flow after %.2f s, not %g s",
                     ns_seconds(flow->end_ns - bulk->start_ns), bulk->params.duration_s);
    }
    return ended;
}

static bool has_started(const struct bulk *bulk)
{
    const struct control *control = bulk->job->control;
    if (bulk->role == SENDER)
        return control->start && now_ns() >= control->start_ns;
    return bulk->start_ns != 0;
}

/* Waits for the controller's start and its moment, or for the first byte. */
static bool await_start(struct bulk *bulk)
{
    const struct control *control = bulk->job->control;
    const double timeout_s = bulk->params.link.arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    while (!has_started(bulk)) {
        wait_event(bulk, control->start ? control->start_ns : deadline_ns);
        count_ended(bulk);
        if (job_aborted(bulk->job) || bulk->job->failure.kind)
            return false;
        if (now_ns() >= deadline_ns && !control->start && !bulk->start_ns)
            return job_fail(bulk->job, "arm-timeout", -1, "%s within %g s",
                            bulk->role == SENDER ? "no start from the controller"
                                                 : "no byte from the sender",
                            timeout_s);
    }
    return true;
}

static struct baseline begin(struct bulk *bulk)
{
    struct baseline base = {.process = cpu_time(RUSAGE_SELF), .endpoint = endpoint_time()};
    const int64_t now = now_ns();
    if (bulk->role == SENDER) {
        bulk->start_ns = now;
        flows_release(bulk, now + seconds_ns(bulk->params.duration_s));
    }
    base.start_realtime_ns = clock_ns(CLOCK_REALTIME) - (now_ns() - bulk->start_ns);
    return base;
}

/* Samples and watches until all flows have ended. */
static bool measure(struct bulk *bulk)
{
    const struct sampler *sampler = sampler_start(bulk);
    const struct watchdog *watchdog = watchdog_start(bulk);
    while (count_ended(bulk) < bulk->count && !bulk->job->failure.kind) {
        const bool sample_first = sampler->next_ns < watchdog->next_ns;
        wait_event(bulk, sample_first ? sampler->next_ns : watchdog->next_ns);
        if (job_aborted(bulk->job))
            return false;
        if (now_ns() >= sampler->next_ns)
            sampler_tick(bulk);
        if (now_ns() >= watchdog->next_ns)
            watchdog_look(bulk);
    }
    return !bulk->job->failure.kind;
}

static bool find_common_interval(struct bulk *bulk)
{
    struct outcome *outcome = &bulk->outcome;
    if (bulk->role == SENDER)
        return true;
    const int64_t from_ns = bulk->all_begun.at_ns, to_ns = bulk->first_ended.at_ns;
    if (!bulk->first_ended.taken || to_ns <= from_ns)
        return job_fail(
            bulk->job, "no-overlap", -1,
            "a flow ended before the last one began; measure longer or with fewer flows");
    outcome->common_start_s = ns_seconds(from_ns - bulk->start_ns);
    outcome->common_length_s = ns_seconds(to_ns - from_ns);
    return true;
}

static void conclude(struct bulk *bulk, const struct baseline *base)
{
    int64_t end_ns = 0;
    for (int i = 0; i < bulk->count; i++)
        if (bulk->flows[i].end_ns > end_ns)
            end_ns = bulk->flows[i].end_ns;
    bulk->outcome.start_realtime_ns = base->start_realtime_ns;
    bulk->outcome.elapsed_s = ns_seconds(end_ns - bulk->start_ns);
    bulk->outcome.process = cpu_since(base->process, RUSAGE_SELF);
    bulk->outcome.endpoint = endpoint_since(base->endpoint);
    sampler_finish(bulk, end_ns);
}

bool transfer(struct bulk *bulk)
{
    struct baseline base;
    bool ok = flows_start(bulk);
    if (ok) {
        bulk->view->connected(bulk);
        ok = await_start(bulk);
    }
    if (ok) {
        base = begin(bulk);
        ok = measure(bulk);
    }
    if (!ok)
        flows_cancel(bulk);
    flows_join(bulk);
    if (ok)
        conclude(bulk, &base);
    return ok && find_common_interval(bulk);
}
