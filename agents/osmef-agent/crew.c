#include "crew.h"

#include "clock.h"
#include "events.h"
#include "out.h"

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
/* A thread that is blocked in send() sees that the job was cancelled within this time. */
#define SEND_TIMEOUT_US 100000
#define LOOKS_PER_TIMEOUT 10

void crew_wake(const struct crew *crew)
{
    eventfd_write(crew->wake, 1);
}

static void turn_gate(struct crew *crew, uint32_t to)
{
    atomic_store(&crew->gate, to);
    syscall(SYS_futex, &crew->gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void *hand_main(void *argument)
{
    struct hand *hand = argument;
    struct crew *crew = hand->crew;
    const struct cpu_time begun = cpu_time(RUSAGE_THREAD);
    /* Sleeps end when they should, not up to 50 us later, where the kernel lets us say so. */
    prctl(PR_SET_TIMERSLACK, 1);
    while (atomic_load(&crew->gate) == GATE_SHUT)
        syscall(SYS_futex, &crew->gate, FUTEX_WAIT_PRIVATE, GATE_SHUT, NULL, NULL, 0);
    if (!hand_is_cancelled(hand))
        crew->trade->work(hand);
    hand->end_ns = now_ns();
    hand->cpu = cpu_since(begun, RUSAGE_THREAD);
    tcp_state_read(hand->fd, &hand->tcp);
    atomic_store(&hand->has_ended, true);
    crew_wake(crew);
    return NULL;
}

static void prepare_crew(struct crew *crew, struct job *job, struct link_params *params)
{
    crew->job = job;
    crew->params = params;
    crew->gate = params->listens ? GATE_OPEN : GATE_SHUT;
    crew->meeting = 0;
    crew->arrived = 0;
    crew->start_ns = 0;
    crew->look_ns = 0;
    crew->count = params->opening.flows;
    for (int i = 0; i < crew->count; i++) {
        memset(&crew->hands[i], 0, sizeof crew->hands[i]);
        crew->hands[i].crew = crew;
        crew->hands[i].index = i;
    }
    crew->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (crew->wake < 0)
        job_fail(job, "resource", -1, "no event descriptor: %s", strerror(errno));
}

static bool start_thread(struct hand *hand, const pthread_attr_t *attributes)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    hand->fd = hand->crew->link.fds[hand->index];
    const int on = 1;
    setsockopt(hand->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    /* A message is not to wait for the acknowledgement of the one before (Nagle, RFC 896). */
    setsockopt(hand->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int problem = pthread_create(&hand->thread, attributes, hand_main, hand);
    hand->threaded = problem == 0;
    return hand->threaded ||
           job_fail(hand->crew->job, "resource", hand->index,
                    "no thread: %s; try fewer flows or raise the limits", strerror(problem));
}

static bool start_threads(struct crew *crew)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    bool ok = true;
    for (int i = 0; ok && i < crew->count; i++)
        ok = start_thread(&crew->hands[i], &attributes);
    pthread_attr_destroy(&attributes);
    return ok;
}

/* Returns how many hands have ended; fails the job for the first that did not end well. */
static int count_ended(struct crew *crew)
{
    int ended = 0;
    for (int i = 0; i < crew->count; i++) {
        const struct hand *hand = &crew->hands[i];
        if (!atomic_load(&hand->has_ended))
            continue;
        ended++;
        if (hand->failure.kind)
            job_fail(crew->job, hand->failure.kind, i, "%s", hand->failure.message);
    }
    return ended;
}

/* Waits for the controller's start and its moment. The threads are behind the gate, so nobody else
 * sees a peer that leaves. */
static bool await_start(struct crew *crew)
{
    const struct control *control = crew->job->control;
    const double timeout_s = crew->params->arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    while (!control->start || now_ns() < control->start_ns) {
        if (!control->start && now_ns() >= deadline_ns)
            return job_fail(crew->job, "arm-timeout", -1,
                            "no start from the controller within %g s", timeout_s);
        const int left = link_watch(crew->job, &crew->link, 0, crew->count, crew->wake,
                                    control->start ? control->start_ns : deadline_ns);
        if (job_aborted(crew->job))
            return false;
        if (left >= 0)
            return job_fail(crew->job, "reset", left, "the peer left before the start");
    }
    return true;
}

/* Waits for the first byte, of which the threads tell. */
static bool await_byte(struct crew *crew)
{
    const double timeout_s = crew->params->arm_timeout_s;
    const int64_t deadline_ns = now_ns() + seconds_ns(timeout_s);
    while (!crew->start_ns) {
        if (now_ns() >= deadline_ns)
            return job_fail(crew->job, "arm-timeout", -1,
                            "no byte from the connecting end within %g s", timeout_s);
        link_watch(crew->job, &crew->link, 0, 0, crew->wake, deadline_ns);
        count_ended(crew);
        if (job_aborted(crew->job) || crew->job->failure.kind)
            return false;
    }
    return true;
}

/* The endpoint's counters from the start on. */
static void begin(struct crew *crew)
{
    crew->process = cpu_time(RUSAGE_SELF);
    crew->endpoint = endpoint_time();
    const int64_t now = now_ns();
    if (!crew->params->listens)
        crew->start_ns = now;
    crew->start_realtime_ns = clock_ns(CLOCK_REALTIME) - (now_ns() - crew->start_ns);
    crew->moved_ns = now;
    for (int i = 0; i < crew->count; i++)
        crew->seen[i] = 0;
    if (!crew->params->listens)
        turn_gate(crew, GATE_OPEN);
}

static bool has_moved(struct crew *crew, int index)
{
    const uint64_t before = crew->seen[index];
    crew->seen[index] = atomic_load_explicit(&crew->hands[index].moves, memory_order_relaxed);
    return crew->seen[index] != before;
}

/* Fails the job when no flow moves. That one waits for long beside others is a result, or it waits
 * for the others. */
static void look_for_stalls(struct crew *crew)
{
    const int64_t now = now_ns();
    int waiting = -1;
    for (int i = 0; i < crew->count; i++) {
        if (has_moved(crew, i))
            crew->moved_ns = now;
        else if (waiting < 0 && !atomic_load(&crew->hands[i].has_ended))
            waiting = i;
    }
    if (ns_seconds(now - crew->moved_ns) >= crew->patience_s)
        job_fail(crew->job, "stalled", waiting,
                 "no byte for %g s; is the link up and the peer alive?", crew->patience_s);
    if (ns_seconds(now - crew->start_ns) > crew->longest_s)
        job_fail(crew->job, "stalled", -1, "not over after %g s; the link is very slow",
                 crew->longest_s);
    crew->look_ns = now + seconds_ns(crew->params->stall_timeout_s / LOOKS_PER_TIMEOUT);
}

static bool watch(struct crew *crew)
{
    while (count_ended(crew) < crew->count && !crew->job->failure.kind) {
        const int64_t tick_ns = crew->trade->tick(crew);
        link_watch(crew->job, &crew->link, 0, 0, crew->wake,
                   tick_ns < crew->look_ns ? tick_ns : crew->look_ns);
        if (job_aborted(crew->job))
            return false;
        if (now_ns() >= crew->look_ns)
            look_for_stalls(crew);
    }
    return !crew->job->failure.kind;
}

/* Makes every thread leave its call soon. */
static void cancel(struct crew *crew)
{
    turn_gate(crew, GATE_CANCELLED);
    atomic_fetch_add(&crew->meeting, 1);
    syscall(SYS_futex, &crew->meeting, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    /* Ends a blocked recv() and sends nothing, so that the close behind it can be a reset. */
    for (int i = 0; i < crew->count; i++)
        shutdown(crew->link.fds[i], SHUT_RD);
}

static void conclude(struct crew *crew)
{
    int64_t end_ns = crew->start_ns;
    for (int i = 0; i < crew->count; i++)
        if (crew->hands[i].end_ns > end_ns)
            end_ns = crew->hands[i].end_ns;
    crew->elapsed_s = ns_seconds(end_ns - crew->start_ns);
    crew->process = cpu_since(crew->process, RUSAGE_SELF);
    crew->endpoint = endpoint_since(crew->endpoint);
}

static bool work(struct crew *crew)
{
    bool ok = crew->trade->prepare(crew) && start_threads(crew);
    if (ok) {
        crew->job->report->connected(crew->job);
        ok = crew->params->listens ? await_byte(crew) : await_start(crew);
    }
    if (ok) {
        begin(crew);
        ok = watch(crew);
    }
    if (!ok)
        cancel(crew);
    for (int i = 0; i < crew->count; i++)
        if (crew->hands[i].threaded)
            pthread_join(crew->hands[i].thread, NULL);
    if (ok)
        conclude(crew);
    return ok;
}

bool crew_run(struct crew *crew, struct job *job, struct link_params *params)
{
    prepare_crew(crew, job, params);
    bool ok = !job->failure.kind && link_open(job, params, &crew->link);
    if (ok) {
        ok = work(crew);
        link_close(&crew->link);
    }
    if (crew->wake >= 0)
        close(crew->wake);
    return ok;
}

void crew_tell_begin(const struct crew *crew)
{
    out_format(",\"role\":\"%s\",\"start_realtime_ns\":%lld,\"refused\":%d",
               crew->params->listens ? "receiver" : "sender", (long long)crew->start_realtime_ns,
               crew->link.refused);
}

void crew_tell_hand(const struct hand *hand)
{
    tell_cpu(&hand->cpu);
    tell_tcp(&hand->tcp);
}

void crew_tell_end(const struct crew *crew)
{
    tell_process(&crew->process);
    tell_endpoint(&crew->endpoint);
}
