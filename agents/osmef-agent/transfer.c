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

static void wait_event(struct job *job, int64_t until_ns)
{
    struct pollfd fds[2] = {[1] = {.fd = job->wake, .events = POLLIN}};
    eventfd_t count;
    control_wait(job->control, fds, 2, until_ns);
    if (fds[1].revents)
        eventfd_read(job->wake, &count);
}

static bool fail_flow(struct job *job, const struct flow *flow)
{
    if (flow->problem == ETIMEDOUT)
        return job_fail(job, "stalled", flow->index, "the connection timed out; is the link up?");
    return job_fail(job, "reset", flow->index, "the peer closed the flow before its end: %s",
                    strerror(flow->problem));
}

static bool ended_early(const struct job *job, const struct flow *flow)
{
    return job->params.role == RECEIVER &&
           ns_seconds(flow->end_ns - job->start_ns) < job->params.duration_s - EARLY_SLACK_S;
}

/* Returns how many flows have ended; fails the job for the first that did not end well. */
static int count_ended(struct job *job)
{
    int ended = 0;
    for (int i = 0; i < job->params.flows; i++) {
        const struct flow *flow = &job->flows[i];
        if (!atomic_load(&flow->has_ended))
            continue;
        ended++;
        if (flow->problem)
            fail_flow(job, flow);
        else if (ended_early(job, flow))
            job_fail(job, "reset", i, "the sender ended the flow after %.2f s, not %g s",
                     ns_seconds(flow->end_ns - job->start_ns), job->params.duration_s);
    }
    return ended;
}

/* Waits for the controller's start, or for the first byte. */
static bool await_start(struct job *job)
{
    const bool sender = job->params.role == SENDER;
    const int64_t deadline_ns = now_ns() + seconds_ns(job->params.arm_timeout_s);
    while (sender ? !job->control->start : !job->start_ns) {
        wait_event(job, deadline_ns);
        count_ended(job);
        if (job_aborted(job) || job->failure.kind)
            return false;
        if (now_ns() >= deadline_ns && !job->start_ns)
            return job_fail(job, "arm-timeout", -1, "%s within %g s",
                            sender ? "no start from the controller" : "no byte from the sender",
                            job->params.arm_timeout_s);
    }
    return true;
}

static struct baseline begin(struct job *job)
{
    struct baseline base = {.process = cpu_time(RUSAGE_SELF), .endpoint = endpoint_time()};
    const int64_t now = now_ns();
    if (job->params.role == SENDER) {
        job->start_ns = now;
        flows_release(job, now + seconds_ns(job->params.duration_s));
    }
    base.start_realtime_ns = clock_ns(CLOCK_REALTIME) - (now_ns() - job->start_ns);
    return base;
}

/* Samples and watches until all flows have ended. */
static bool measure(struct job *job)
{
    const struct sampler *sampler = sampler_start(job);
    const struct watchdog *watchdog = watchdog_start(job);
    while (count_ended(job) < job->params.flows && !job->failure.kind) {
        const bool sample_first = sampler->next_ns < watchdog->next_ns;
        wait_event(job, sample_first ? sampler->next_ns : watchdog->next_ns);
        if (job_aborted(job))
            return false;
        if (now_ns() >= sampler->next_ns)
            sampler_tick(job);
        if (now_ns() >= watchdog->next_ns)
            watchdog_look(job);
    }
    return !job->failure.kind;
}

static bool find_common_interval(struct job *job)
{
    struct outcome *outcome = &job->outcome;
    if (job->params.role == SENDER)
        return true;
    const int64_t from_ns = job->all_begun.at_ns, to_ns = job->first_ended.at_ns;
    if (!job->first_ended.taken || to_ns <= from_ns)
        return job_fail(
            job, "no-overlap", -1,
            "a flow ended before the last one began; measure longer or with fewer flows");
    outcome->common_start_s = ns_seconds(from_ns - job->start_ns);
    outcome->common_length_s = ns_seconds(to_ns - from_ns);
    return true;
}

static void conclude(struct job *job, const struct baseline *base)
{
    int64_t end_ns = 0;
    for (int i = 0; i < job->params.flows; i++)
        if (job->flows[i].end_ns > end_ns)
            end_ns = job->flows[i].end_ns;
    job->outcome.start_realtime_ns = base->start_realtime_ns;
    job->outcome.elapsed_s = ns_seconds(end_ns - job->start_ns);
    job->outcome.process = cpu_since(base->process, RUSAGE_SELF);
    job->outcome.endpoint = endpoint_since(base->endpoint);
    sampler_finish(job, end_ns);
}

bool transfer(struct job *job)
{
    struct baseline base;
    bool ok = flows_start(job);
    if (ok) {
        job->report->connected(job);
        ok = await_start(job);
    }
    if (ok) {
        base = begin(job);
        ok = measure(job);
    }
    if (!ok)
        flows_cancel(job);
    flows_join(job);
    if (ok)
        conclude(job, &base);
    return ok && find_common_interval(job);
}
