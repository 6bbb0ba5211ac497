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

static void wait_event(struct udp *udp, struct pollfd *fds, nfds_t count, int64_t until_ns)
{
    eventfd_t ended;
    fds[1] = (struct pollfd){.fd = udp->wake, .events = POLLIN};
    control_wait(udp->job->control, fds, count, until_ns);
    if (fds[1].revents)
        eventfd_read(udp->wake, &ended);
}

/* Returns true once the connecting end has said that it starts. */
static bool hear_go(struct udp *udp)
{
    char byte = 0;
    return udp->params.link.listens && recv(udp->flows[0].control, &byte, 1, MSG_DONTWAIT) == 1 &&
           byte == UDP_GO;
}

/* Watches all connections; returns false when a peer has left. */
static bool watch(struct udp *udp, int64_t until_ns, bool *go)
{
    static struct pollfd fds[2 + MAX_FLOWS];
    for (int i = 0; i < udp->count; i++)
        fds[2 + i] = (struct pollfd){.fd = udp->flows[i].control, .events = POLLRDHUP};
    fds[2].events |= POLLIN;
    wait_event(udp, fds, (nfds_t)udp->count + 2, until_ns);
    *go = fds[2].revents && hear_go(udp);
    for (int i = 0; !*go && i < udp->count; i++)
        if (fds[2 + i].revents)
            return job_fail(udp->job, "reset", i, "the peer left before the start");
    return true;
}

/* The connecting end waits for the controller, the listening one for the connecting one. */
static bool await_start(struct udp *udp)
{
    const struct control *control = udp->job->control;
    const double timeout_s = udp->params.link.arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    const bool listens = udp->params.link.listens;
    bool go = false;
    while (!go && !(control->start && !listens && now_ns() >= control->start_ns)) {
        if (!watch(udp, control->start && !listens ? control->start_ns : deadline_ns, &go))
            return false;
        count_ended(udp);
        if (job_aborted(udp->job) || udp->job->failure.kind)
            return false;
        if (!go && !control->start && now_ns() >= deadline_ns)
            return job_fail(udp->job, "arm-timeout", -1, "no start from the %s within %g s",
                            listens ? "peer" : "controller", timeout_s);
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

/* Samples until all flows have ended. Every wait of their threads has an end. */
static bool measure(struct udp *udp)
{
    struct pollfd fds[2];
    int64_t next_ns = udp_series_begin(udp);
    while (count_ended(udp) < udp->count && !udp->job->failure.kind) {
        wait_event(udp, fds, 2, next_ns);
        if (job_aborted(udp->job))
            return false;
        next_ns = udp_series_tick(udp);
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
    udp->process = cpu_since(udp->process, RUSAGE_SELF);
    udp->endpoint = endpoint_since(udp->endpoint);
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
