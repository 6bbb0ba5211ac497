/* From the threads to the account of all flows. */
#include "udp.h"
#include "udp_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define STACK_SIZE (256 * 1024)

static bool start_threads(struct udp *udp)
{
    pthread_attr_t attributes;
    int problem = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    for (int i = 0; !problem && i < udp->count; i++) {
        struct udp_flow *flow = &udp->flows[i];
        problem = pthread_create(&flow->thread, &attributes,
                                 udp->role == UDP_SENDER ? udp_send : udp_receive, flow);
        flow->threaded = problem == 0;
    }
    pthread_attr_destroy(&attributes);
    return !problem ||
           job_fail(udp->job, "resource", -1, "no thread: %s; try fewer flows or raise the limits",
                    strerror(problem));
}

/* Returns how many flows have ended; fails the job for the first that did not end well. */
static int count_ended(struct udp *udp)
{
    int ended = 0;
    for (int i = 0; i < udp->count; i++) {
        const struct udp_flow *flow = &udp->flows[i];
        if (!atomic_load(&flow->has_ended))
            continue;
        ended++;
        if (flow->failure.kind)
            job_fail(udp->job, flow->failure.kind, i, "%s", flow->failure.message);
    }
    return ended;
}

/* Returns true once the connecting end has said that it starts. */
static bool hear_go(struct udp *udp)
{
    char byte = 0;
    return udp->params.link.listens && recv(udp->flows[0].control, &byte, 1, MSG_DONTWAIT) == 1 &&
           byte == UDP_GO;
}

/* Whether the controller has said when to start; only the connecting end heeds that. */
static bool timed(const struct udp *udp)
{
    return udp->job->control->start && !udp->params.link.listens;
}

/* The connecting end waits for the controller, the listening one for the connecting one. */
static bool await_start(struct udp *udp)
{
    const struct control *control = udp->job->control;
    const double timeout_s = udp->params.link.arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    for (bool go = false; !go && !(timed(udp) && now_ns() >= control->start_ns);) {
        const int spoken = link_watch(udp->job, &udp->link, 0, udp->count, udp->wake,
                                      timed(udp) ? control->start_ns : deadline_ns);
        go = spoken == 0 && hear_go(udp);
        count_ended(udp);
        if (job_aborted(udp->job) || udp->job->failure.kind)
            return false;
        if (spoken >= 0 && !go)
            return job_fail(udp->job, "reset", spoken, "the peer left before the start");
        if (!go && !timed(udp) && now_ns() >= deadline_ns)
            return job_fail(udp->job, "arm-timeout", -1, "no start from the %s within %g s",
                            udp->params.link.listens ? "peer" : "controller", timeout_s);
    }
    return true;
}

static bool send_go(struct udp *udp)
{
    const char go = UDP_GO;
    return udp->params.link.listens ||
           send(udp->flows[0].control, &go, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ||
           job_fail(udp->job, "reset", 0, "the peer left before the start");
}

static void open_gate(struct udp *udp)
{
    for (int i = 0; i < udp->count; i++)
        sem_post(&udp->gate);
}

/* Samples until all flows have ended. Every wait of their threads has an end. CPU time is counted
 * until the sender is to end: a receiver then only waits for stragglers. */
static bool measure(struct udp *udp)
{
    const struct udp_params *p = &udp->params;
    int64_t use_ns = udp->start_ns + seconds_ns(p->warmup_s + p->duration_s);
    int64_t next_ns = udp_series_begin(udp);
    bool ended = false;
    while (!ended && !udp->job->failure.kind) {
        link_watch(udp->job, &udp->link, 0, 0, udp->wake, next_ns < use_ns ? next_ns : use_ns);
        if (job_aborted(udp->job))
            return false;
        next_ns = udp_series_tick(udp);
        ended = count_ended(udp) == udp->count;
        if (use_ns != FOREVER && (ended || now_ns() >= use_ns)) {
            udp->process = cpu_since(udp->process, RUSAGE_SELF);
            udp->endpoint = endpoint_since(udp->endpoint);
            use_ns = FOREVER;
        }
    }
    return !udp->job->failure.kind;
}

static bool run_flows(struct udp *udp)
{
    if (!await_start(udp) || !send_go(udp))
        return false;
    udp->process = cpu_time(RUSAGE_SELF);
    udp->endpoint = endpoint_time();
    udp->start_realtime_ns = clock_ns(CLOCK_REALTIME);
    udp->start_ns = now_ns();
    open_gate(udp);
    return measure(udp);
}

static void cancel(struct udp *udp)
{
    atomic_store(&udp->cancelled, true);
    open_gate(udp);
}

static void join(struct udp *udp)
{
    for (int i = 0; i < udp->count; i++)
        if (udp->flows[i].threaded)
            pthread_join(udp->flows[i].thread, NULL);
}

static void conclude(struct udp *udp)
{
    int64_t end_ns = 0;
    for (int i = 0; i < udp->count; i++)
        if (udp->flows[i].end_ns > end_ns)
            end_ns = udp->flows[i].end_ns;
    udp->elapsed_s = ns_seconds(end_ns - udp->start_ns);
    udp_series_finish(udp, end_ns);
}

bool udp_transfer(struct udp *udp)
{
    sem_init(&udp->gate, 0, 0);
    bool ok = true;
    if (udp->role == UDP_SENDER)
        udp_fill_payload();
    else
        ok = udp_map_buffers(udp);
    ok = ok && start_threads(udp);
    if (ok) {
        udp->job->report->connected(udp->job);
        ok = run_flows(udp);
    }
    if (!ok)
        cancel(udp);
    join(udp);
    udp_unmap_buffers();
    sem_destroy(&udp->gate);
    if (ok)
        conclude(udp);
    return ok;
}
