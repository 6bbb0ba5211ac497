#include "flow_threads.h"

#include "clock.h"
#include "events.h"
#include "out.h"
#include "pages.h"
#include "realtime_priority.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_SIZE (256 * 1024)
/* A thread that is blocked in send() checks this often whether the job was cancelled. */
#define SEND_TIMEOUT_US 100000
#define CHECKS_PER_TIMEOUT 10
/* How long after the start the main thread gathers first bytes. */
#define GATHER_NS (NS_PER_S / 20)

static void *thread_main(void *argument)
{
    struct flow_thread *thread = argument;
    thread->cpu = cpu_time(RUSAGE_THREAD);
    /* Timers expire in time, not up to 50 us later, where the kernel has this option. */
    prctl(PR_SET_TIMERSLACK, 1);
    thread->threads->work->run(thread);
    thread->cpu = cpu_since(thread->cpu, RUSAGE_THREAD);
    atomic_store(&thread->has_ended, true);
    threads_wake(thread->threads);
    return NULL;
}

static bool prepare_threads(struct flow_threads *threads, struct job *job,
                            struct link_params *params)
{
    threads->job = job;
    threads->params = params;
    threads->start_gate = GATE_CLOSED;
    threads->barrier_phase = 0;
    threads->barrier_arrived = 0;
    threads->start_ns = 0;
    threads->check_ns = 0;
    threads->count = 0;
    threads->counted = false;
    threads->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return threads->wake >= 0 ||
           job_fail(job, "resource", -1, "no event descriptor: %s", strerror(errno));
}

/* Only entries in use are written: untouched pages of the arrays take no memory. */
static void set_flows(struct flow_threads *threads)
{
    const enum direction direction = threads->params->handshake.direction;
    threads->count = threads->link.flows;
    threads->forward = direction == FORWARD   ? threads->count
                       : direction == REVERSE ? 0
                                              : threads->count / 2;
    for (int i = 0; i < threads->count; i++) {
        memset(&threads->of[i], 0, sizeof threads->of[i]);
        threads->of[i].threads = threads;
        threads->of[i].index = threads->of[i].flow = i;
        threads->of[i].fd = threads->link.fds[i];
        threads->seen[i] = 0;
    }
}

void threads_set_messages(const struct flow_threads *threads)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    const int on = 1;
    for (int i = 0; i < threads->link.flows; i++) {
        setsockopt(threads->link.fds[i], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        /* Nagle, RFC 896. */
        setsockopt(threads->link.fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
}

void series_advance(struct series *series, int64_t from_ns, double interval_s, double length_s,
                    int64_t otherwise_ns)
{
    const double at_s = (double)++series->count * interval_s;
    series->next_ns = at_s <= length_s - interval_s / 2 ? from_ns + seconds_ns(at_s) : otherwise_ns;
}

void *threads_map(const struct flow_threads *threads, size_t size, int flags)
{
    void *const memory = pages_map(size, flags);
    if (!memory)
        job_fail(threads->job, "resource", -1, "no memory for %d flows: %s", threads->link.flows,
                 strerror(errno));
    return memory;
}

static bool start_thread(struct flow_thread *thread)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    const int problem = pthread_create(&thread->posix, &attributes, thread_main, thread);
    pthread_attr_destroy(&attributes);
    thread->threaded = !problem;
    return !problem || job_fail(thread->threads->job, "resource", thread->index,
                                "no thread: %s; try fewer connections or threads, or raise the limits",
                                strerror(problem));
}

static bool start_threads(struct flow_threads *threads)
{
    bool ok = true;
    for (int i = 0; ok && i < threads->count; i++)
        ok = start_thread(&threads->of[i]);
    return ok;
}

/* Returns how many threads have ended; fails the job with the first failure of one. */
static int count_ended(struct flow_threads *threads)
{
    int ended = 0;
    for (int i = 0; i < threads->count; i++) {
        const struct flow_thread *thread = &threads->of[i];
        if (!atomic_load(&thread->has_ended))
            continue;
        ended++;
        if (thread->failure.kind)
            job_fail(threads->job, thread->failure.kind, thread->failure.flow, "%s",
                     thread->failure.message);
    }
    return ended;
}

static bool is_running(struct flow_threads *threads)
{
    count_ended(threads);
    return !job_aborted(threads->job) && !threads->job->failure.kind;
}

/* The flow on which the connecting end sends the byte that starts the listening one. */
static int go_flow(const struct flow_threads *threads)
{
    return threads->forward % threads->link.flows;
}

static bool needs_go(const struct flow_threads *threads)
{
    return threads->work->go &&
           (threads->work->always_go || threads->params->handshake.direction != FORWARD);
}

static bool received_go(const struct flow_threads *threads, int readable)
{
    char go = 0;
    return threads->params->listens && readable == go_flow(threads) &&
           recv(threads->link.fds[readable], &go, 1, MSG_DONTWAIT) == 1 && go == threads->work->go;
}

/* Waits for the controller's `start` and its time, or at the listening end for the byte `go` of the
 * peer. The threads wait at the gate, so only the main thread can see that the peer closes a flow.
 * Flows with lower numbers than that of `go` may already have data of a peer that sends as well. */
static bool await_start(struct flow_threads *threads)
{
    struct job *job = threads->job;
    const struct control *control = job->control;
    const bool listens = threads->params->listens;
    const double timeout_s = threads->params->arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    const int first = listens ? go_flow(threads) : 0;
    for (;;) {
        const bool timed = !listens && control->start;
        if (timed && now_ns() >= control->start_ns)
            return true;
        if (!timed && now_ns() >= deadline_ns)
            return job_fail(job, "arm-timeout", -1, "no start from the %s within %g s",
                            listens ? "peer" : "controller", timeout_s);
        const int readable = link_watch(job, &threads->link, first, threads->link.flows - first,
                                        threads->wake, timed ? control->start_ns : deadline_ns);
        if (!is_running(threads))
            return false;
        if (readable >= 0)
            return received_go(threads, readable) ||
                   job_fail(job, "reset", readable, "the peer left before the start");
    }
}

static bool send_go(struct flow_threads *threads)
{
    const int flow = go_flow(threads);
    return send(threads->link.fds[flow], &threads->work->go, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ||
           job_fail(threads->job, "reset", flow, "the peer left before the start: %s",
                    strerror(errno));
}

/* Waits for the first byte, which is gathered here or reported by a thread. */
static bool await_first_byte(struct flow_threads *threads)
{
    const double timeout_s = threads->params->arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    while (!threads->start_ns) {
        if (now_ns() >= deadline_ns)
            return job_fail(threads->job, "arm-timeout", -1, "no byte from the peer within %g s",
                            timeout_s);
        if (threads->work->gather)
            threads->work->gather(threads, deadline_ns);
        else
            link_watch(threads->job, &threads->link, 0, 0, threads->wake, deadline_ns);
        if (!is_running(threads))
            return false;
    }
    return true;
}

static void set_gate(struct flow_threads *threads, uint32_t state)
{
    atomic_store(&threads->start_gate, state);
    syscall(SYS_futex, &threads->start_gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Starts the counters, and opens the gate. */
static void begin(struct flow_threads *threads)
{
    threads->process = cpu_time(RUSAGE_SELF);
    if (!threads->start_ns)
        threads->start_ns = now_ns();
    threads->moved_ns[0] = threads->moved_ns[1] = threads->start_ns;
    threads->start_realtime_ns = clock_ns(CLOCK_REALTIME) - (now_ns() - threads->start_ns);
    if (threads->work->begin)
        threads->work->begin(threads);
    realtime_priority_drop(); /* the priority was for the start only */
    set_gate(threads, threads->work->gather ? GATE_SENDERS : GATE_OPEN);
    threads->endpoint = endpoint_time(); /* reading it takes a while */
}

/* The main thread receives the first bytes of all flows before it opens the gate: with many flows
 * on few CPUs the last thread would begin late. Flows whose first bytes come later than GATHER_NS
 * are left to their threads. */
static bool gather(struct flow_threads *threads)
{
    const int64_t until_ns = threads->start_ns + GATHER_NS;
    while (now_ns() < until_ns && threads->work->gather(threads, until_ns))
        if (!is_running(threads))
            return false;
    set_gate(threads, GATE_OPEN);
    return true;
}

static bool start(struct flow_threads *threads)
{
    const bool listens = threads->params->listens;
    if ((!listens || needs_go(threads)) && !await_start(threads))
        return false;
    if (!listens && needs_go(threads) && !send_go(threads))
        return false;
    if (!threads_send(threads) && !threads->work->always_go && !await_first_byte(threads))
        return false;
    begin(threads);
    return !threads->work->gather || gather(threads);
}

static int64_t progress_of(const struct flow_threads *threads, int flow)
{
    if (threads->work->progress)
        return threads->work->progress(threads, flow);
    const struct flow_thread *thread = &threads->of[flow];
    return atomic_load(&thread->has_ended)
               ? FLOW_ENDED
               : (int64_t)atomic_load_explicit(&thread->moves, memory_order_relaxed);
}

/* Fails the job when all flows of one direction have stalled. A single flow may starve for a while
 * among many on a slow link; that is a result. */
static void check_progress(struct flow_threads *threads, int first, int last, int64_t *moved_ns)
{
    const int64_t now = now_ns();
    int waiting = -1;
    for (int i = first; i < last; i++) {
        const int64_t progress = progress_of(threads, i);
        if (progress == FLOW_ENDED)
            continue;
        if (progress != threads->seen[i])
            *moved_ns = now;
        else if (waiting < 0)
            waiting = i;
        threads->seen[i] = progress;
    }
    if (waiting >= 0 && ns_seconds(now - *moved_ns) >= threads->stall_limit_s)
        job_fail(threads->job, "stalled", waiting,
                 "no byte for %g s; is the link up and the peer alive?", threads->stall_limit_s);
}

static void check_stalls(struct flow_threads *threads)
{
    const int64_t now = now_ns();
    check_progress(threads, 0, threads->forward, &threads->moved_ns[0]);
    check_progress(threads, threads->forward, threads->link.flows, &threads->moved_ns[1]);
    if (ns_seconds(now - threads->start_ns) > threads->total_limit_s)
        job_fail(threads->job, "stalled", -1, "not over after %g s; the link is very slow",
                 threads->total_limit_s);
    threads->check_ns = now + seconds_ns(threads->params->stall_timeout_s / CHECKS_PER_TIMEOUT);
}

static bool watch(struct flow_threads *threads)
{
    int64_t tick_ns = threads->work->tick(threads);
    while (count_ended(threads) < threads->count && !threads->job->failure.kind) {
        link_watch(threads->job, &threads->link, 0, 0, threads->wake,
                   tick_ns < threads->check_ns ? tick_ns : threads->check_ns);
        if (job_aborted(threads->job))
            return false;
        tick_ns = threads->work->tick(threads);
        if (now_ns() >= threads->check_ns)
            check_stalls(threads);
    }
    return !threads->job->failure.kind;
}

/* Makes every thread return soon. */
static void cancel(struct flow_threads *threads)
{
    set_gate(threads, GATE_CANCELLED);
    atomic_fetch_add(&threads->barrier_phase, 1);
    syscall(SYS_futex, &threads->barrier_phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    /* Ends a blocked recv() without sending a FIN, so that the close can be a reset. */
    for (int i = 0; i < threads->link.flows; i++)
        shutdown(threads->link.fds[i], SHUT_RD);
}

void threads_count_use(struct flow_threads *threads)
{
    if (threads->counted)
        return;
    threads->process = cpu_since(threads->process, RUSAGE_SELF);
    threads->endpoint = endpoint_since(threads->endpoint);
    threads->counted = true;
}

static void conclude(struct flow_threads *threads)
{
    threads->end_ns = threads->start_ns;
    for (int i = 0; i < threads->count; i++)
        if (threads->of[i].end_ns > threads->end_ns)
            threads->end_ns = threads->of[i].end_ns;
    threads->elapsed_s = ns_seconds(threads->end_ns - threads->start_ns);
    if (threads->work->end)
        threads->work->end(threads);
    threads_count_use(threads);
}

static bool run(struct flow_threads *threads)
{
    bool ok = threads->work->prepare(threads) && start_threads(threads);
    if (ok) {
        if (threads->work->connected)
            threads->work->connected(threads);
        else
            threads->job->report->connected(threads->job);
        ok = start(threads) && watch(threads);
    }
    if (!ok)
        cancel(threads);
    for (int i = 0; i < threads->count; i++)
        if (threads->of[i].threaded)
            pthread_join(threads->of[i].posix, NULL);
    if (ok)
        conclude(threads);
    return ok;
}

bool threads_run(struct flow_threads *threads, struct job *job, struct link_params *params)
{
    if (!prepare_threads(threads, job, params))
        return false;
    bool ok = link_open(job, params, &threads->link);
    if (ok) {
        set_flows(threads);
        ok = run(threads);
        link_close(&threads->link);
    }
    close(threads->wake);
    return ok;
}

void threads_write_begin(const struct flow_threads *threads)
{
    out_format(",\"role\":\"%s\",\"start_realtime_ns\":%lld,\"refused\":%d",
               threads_send(threads) ? "sender" : "receiver", (long long)threads->start_realtime_ns,
               threads->link.refused);
}

void threads_write_one(const struct flow_thread *thread)
{
    write_cpu(&thread->cpu);
    write_tcp(&thread->tcp);
}

void threads_write_end(const struct flow_threads *threads)
{
    write_process(&threads->process);
    write_endpoint(&threads->endpoint);
}
