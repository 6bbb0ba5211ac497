#include "transfer.h"

#include "clock.h"
#include "flow.h"
#include "receive.h"
#include "sampler.h"
#include "watchdog.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* A sender that has been killed resets its flows; this finds one that ended them too early. First
 * segments may be lost and busy CPUs late, so the receiver's time may begin that much later. */
#define EARLY_SLACK_S 1.0
/* What a connecting end that receives says on the first of these flows: the other end may send. */
#define GO '!'
#define GATHER_NS (50 * NS_PER_S / 1000)

static bool fail_flow(struct bulk *bulk, const struct flow *flow)
{
    if (flow->problem == ETIMEDOUT)
        return job_fail(bulk->job, "stalled", flow->connection, GAVE_UP);
    if (flow->problem == ETIME)
        return job_fail(bulk->job, "timeout", flow->connection,
                        "%llu of %llu bytes were sent in %g s; allow a longer time or fewer bytes",
                        (unsigned long long)flow->bytes,
                        (unsigned long long)bulk->params.link.opening.bytes, bulk_sending_s(bulk));
    return job_fail(bulk->job, "reset", flow->connection,
                    "the peer closed the flow before its end: %s", strerror(flow->problem));
}

/* A receiver's flow may have ended well, but not as it was agreed. */
static bool check_end(struct bulk *bulk, const struct flow *flow)
{
    const uint64_t wanted = bulk->params.link.opening.bytes;
    const double length_s = ns_seconds(flow->end_ns - bulk->start_ns);
    if (flow->way->role == SENDER || bulk->params.until_stopped)
        return true;
    if (wanted && flow->bytes != wanted)
        return job_fail(bulk->job, "reset", flow->connection,
                        "the sender ended the flow after %llu bytes, not %llu",
                        (unsigned long long)flow->bytes, (unsigned long long)wanted);
    if (!wanted && length_s < bulk_sending_s(bulk) - EARLY_SLACK_S)
        return job_fail(bulk->job, "reset", flow->connection,
                        "the sender ended the flow after %.2f s, not %g s", length_s,
                        bulk_sending_s(bulk));
    return true;
}

/* Returns how many flows have ended; fails the job for the first that did not end well. */
static int count_ended(struct bulk *bulk)
{
    int ended = 0;
    for (int i = 0; i < bulk->link.flows; i++) {
        const struct flow *flow = &bulk->flows[i];
        if (!atomic_load(&flow->has_ended))
            continue;
        ended++;
        if (flow->problem)
            fail_flow(bulk, flow);
        else
            check_end(bulk, flow);
    }
    return ended;
}

/* The flow on which the connecting end says go. */
static bool has_go(const struct bulk *bulk, int spoken)
{
    char go = 0;
    return !bulk_connects(bulk) && spoken == bulk->ways[SENDER].flows[0].connection &&
           recv(bulk->link.fds[spoken], &go, 1, MSG_DONTWAIT) == 1 && go == GO;
}

/* Waits for the controller's start and its moment, or for the connecting end's go. Nothing else is
 * said on these flows, and their threads are behind the gate: nobody else sees a peer that leaves.
 */
static bool await(struct bulk *bulk)
{
    const struct control *control = bulk->job->control;
    const struct way *way = &bulk->ways[bulk_sends(bulk) ? SENDER : RECEIVER];
    const double timeout_s = bulk->params.link.arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    for (;;) {
        const bool timed = bulk_connects(bulk) && control->start;
        if (timed && now_ns() >= control->start_ns)
            return true;
        if (!timed && now_ns() >= deadline_ns)
            return job_fail(bulk->job, "arm-timeout", -1, "no start from the %s within %g s",
                            bulk_connects(bulk) ? "controller" : "connecting end", timeout_s);
        const int spoken = link_watch(bulk->job, &bulk->link, way->flows[0].connection, way->count,
                                      bulk->wake, timed ? control->start_ns : deadline_ns);
        if (job_aborted(bulk->job))
            return false;
        if (has_go(bulk, spoken))
            return true;
        if (spoken >= 0)
            return job_fail(bulk->job, "reset", spoken, "the peer left before the start");
    }
}

/* Tells the other end that it may send. */
static bool say_go(struct bulk *bulk)
{
    const struct flow *flow = &bulk->ways[RECEIVER].flows[0];
    const char go = GO;
    return send(flow->fd, &go, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ||
           job_fail(bulk->job, "reset", flow->connection, "the peer left before the start: %s",
                    strerror(errno));
}

/* An end that only receives what the other one begins has nothing to wait for; a connecting end
 * passes the start on to an end that is to send to it. */
static bool await_start(struct bulk *bulk)
{
    if (!bulk_connects(bulk))
        return !bulk_sends(bulk) || await(bulk);
    return await(bulk) && (bulk->ways[RECEIVER].count == 0 || say_go(bulk));
}

static void use_now(struct usage *usage)
{
    usage->at_ns = now_ns();
    usage->process = cpu_time(RUSAGE_SELF);
    usage->endpoint = endpoint_time();
}

static void use_since(struct usage *usage)
{
    usage->process = cpu_since(usage->process, RUSAGE_SELF);
    usage->endpoint = endpoint_since(usage->endpoint);
}

/* Lets an end that sends begin; one that only receives begins with its first byte. */
static void begin(struct bulk *bulk)
{
    if (!bulk_sends(bulk))
        return;
    use_now(&bulk->outcome.whole);
    int64_t not_started = 0;
    bulk->released_ns = now_ns();
    atomic_compare_exchange_strong(&bulk->start_ns, &not_started, bulk->released_ns);
    flows_release(bulk, bulk->released_ns + seconds_ns(bulk_sending_s(bulk)));
}

/* Takes the first bytes that are there. */
static void receive_first(struct way *way, const struct pollfd *fds)
{
    for (int i = 0; i < way->count; i++) {
        if (!fds[i].revents)
            continue;
        const ssize_t n = receive_some(&way->flows[i], MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            receive_ended(&way->flows[i], n);
    }
}

/* The first bytes of all flows are taken by one thread, as they are sent by one, before those of
 * the flows go on: else with many flows on few CPUs the last would begin late. Flows that begin
 * later than a moment after the first are left to their threads. */
static bool gather(struct bulk *bulk)
{
    static struct pollfd fds[1 + MAX_FLOWS];
    struct way *way = &bulk->ways[RECEIVER];
    const double timeout_s = bulk->params.link.arm_timeout_s;
    int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    while (way->begun < way->count) {
        if (bulk->start_ns)
            deadline_ns = bulk->start_ns + GATHER_NS;
        if (now_ns() >= deadline_ns)
            break;
        for (int i = 0; i < way->count; i++)
            fds[1 + i] = (struct pollfd){.fd = way->flows[i].start_ns ? -1 : way->flows[i].fd,
                                         .events = POLLIN};
        control_wait(bulk->job->control, fds, (nfds_t)way->count + 1, deadline_ns);
        const bool had_started = bulk->start_ns != 0;
        receive_first(way, fds + 1);
        if (!had_started && bulk->start_ns)
            use_now(&bulk->outcome.whole);
        count_ended(bulk);
        if (job_aborted(bulk->job) || bulk->job->failure.kind)
            return false;
    }
    flows_receive(bulk);
    return bulk->start_ns ||
           job_fail(bulk->job, "arm-timeout", -1, "no byte from the sender within %g s", timeout_s);
}

/* Samples, and counts CPU time anew once the warm-up is over. */
static void sample(struct bulk *bulk)
{
    const bool was_warm = bulk->is_warm;
    sampler_tick(bulk);
    if (bulk->is_warm && !was_warm)
        use_now(&bulk->outcome.measured);
}

/* Has all flows of this end send no more. They look at their deadline often. */
static void obey_stop(struct bulk *bulk)
{
    if (bulk->params.until_stopped && bulk->job->control->stop)
        atomic_store(&bulk->deadline_ns, 0);
}

/* Samples and watches until all flows have ended. */
static bool measure(struct bulk *bulk)
{
    bulk->outcome.start_realtime_ns = clock_ns(CLOCK_REALTIME) - (now_ns() - bulk->start_ns);
    const struct sampler *sampler = sampler_start(bulk);
    const struct watchdog *watchdog = watchdog_start(bulk);
    while (count_ended(bulk) < bulk->link.flows && !bulk->job->failure.kind) {
        const bool sample_first = sampler->next_ns < watchdog->next_ns;
        link_watch(bulk->job, &bulk->link, 0, 0, bulk->wake,
                   sample_first ? sampler->next_ns : watchdog->next_ns);
        if (job_aborted(bulk->job))
            return false;
        obey_stop(bulk);
        if (now_ns() >= sampler->next_ns)
            sample(bulk);
        if (now_ns() >= watchdog->next_ns)
            watchdog_look(bulk);
    }
    return !bulk->job->failure.kind;
}

/* All flows ran at one time, and the warm-up was over. By bytes there need be no such time. */
static bool find_common_interval(struct bulk *bulk)
{
    struct way *way = &bulk->ways[RECEIVER];
    const struct snapshot *from = &way->all_begun;
    if (way->count == 0)
        return true;
    if (way->warm.taken && way->warm.at_ns > from->at_ns)
        from = &way->warm;
    if (way->first_ended.taken && way->first_ended.at_ns > from->at_ns && bulk->is_warm)
        way->common_from = from;
    return way->common_from || bulk->params.link.opening.bytes > 0 ||
           job_fail(bulk->job, "no-overlap", -1,
                    "a flow ended before the last one began; measure longer or with fewer flows");
}

static void conclude(struct bulk *bulk)
{
    struct outcome *outcome = &bulk->outcome;
    int64_t end_ns = 0;
    for (int i = 0; i < bulk->link.flows; i++)
        if (bulk->flows[i].end_ns > end_ns)
            end_ns = bulk->flows[i].end_ns;
    outcome->elapsed_s = ns_seconds(end_ns - bulk->start_ns);
    const bool was_warm = bulk->is_warm;
    if (!was_warm)
        use_now(&outcome->measured);
    if (bulk->params.warmup_s > 0)
        use_since(&outcome->measured);
    use_since(&outcome->whole);
    if (bulk->params.warmup_s <= 0)
        outcome->measured =
            (struct usage){bulk->start_ns, outcome->whole.process, outcome->whole.endpoint};
    sampler_finish(bulk, end_ns);
    /* It ended in its warm-up: nothing of it is measured. */
    if (!was_warm) {
        sampler_end_warmup(bulk, end_ns);
        outcome->measured.at_ns = end_ns;
    }
}

bool transfer(struct bulk *bulk)
{
    bool ok = flows_start(bulk);
    if (ok) {
        bulk->view->connected(bulk);
        ok = await_start(bulk);
    }
    if (ok) {
        begin(bulk);
        ok = gather(bulk) && measure(bulk);
    }
    if (!ok)
        flows_cancel(bulk);
    flows_join(bulk);
    if (ok)
        conclude(bulk);
    return ok && find_common_interval(bulk);
}
