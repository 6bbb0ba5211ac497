#include "flow.h"

#include "clock.h"
#include "payload.h"
#include "pool.h"
#include "receive.h"
#include "send.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GATE_SHUT, GATE_OPEN, GATE_CANCELLED };

#define STACK_SIZE (256 * 1024)

static void take_snapshot(struct way *way, struct snapshot *snapshot, int64_t at_ns)
{
    snapshot->at_ns = at_ns;
    for (int i = 0; i < way->count; i++)
        snapshot->bytes[i] = atomic_load_explicit(&way->flows[i].bytes, memory_order_relaxed);
    atomic_store(&snapshot->taken, true);
}

static void wake_main(const struct bulk *bulk)
{
    eventfd_write(bulk->wake, 1);
}

/* An end that only receives starts its clock with the first flow; the flow that is the last to
 * begin marks the common interval's start. No locks: 128 threads that queue for one begin late. */
void flow_begun(struct flow *flow)
{
    struct way *way = flow->way;
    struct bulk *bulk = way->bulk;
    int64_t start_ns = 0;
    flow->start_ns = now_ns();
    if (!atomic_compare_exchange_strong(&bulk->start_ns, &start_ns, flow->start_ns) &&
        flow->start_ns < start_ns)
        flow->start_ns = start_ns;
    if (atomic_fetch_add(&way->begun, 1) + 1 == way->count)
        take_snapshot(way, &way->all_begun, now_ns());
}

/* The flow that is the first to end marks the common interval's end, if it has begun. */
void flow_ended(struct flow *flow, int problem)
{
    struct way *way = flow->way;
    flow->end_ns = now_ns();
    flow->problem = problem;
    if (atomic_fetch_add(&way->ended, 1) == 0 && atomic_load(&way->all_begun.taken))
        take_snapshot(way, &way->first_ended, flow->end_ns);
    tcp_state_read(flow->fd, &flow->tcp);
    flow->mptcp = way->bulk->params.link.options.mptcp ? options_mptcp(flow->fd) : 0;
    atomic_store(&flow->has_ended, true);
    wake_main(way->bulk);
}

void worker_split(struct worker *worker)
{
    worker->is_warm = true;
    worker->warm = cpu_time(RUSAGE_THREAD);
}

/* Waits until the gate opens. A futex(2) wakes all at once; behind a condition variable they would
 * queue for its mutex, each a time slice after the other. */
void pass_gate(struct way *way)
{
    while (atomic_load(&way->gate) == GATE_SHUT)
        syscall(SYS_futex, &way->gate, FUTEX_WAIT_PRIVATE, GATE_SHUT, NULL, NULL, 0);
}

static void set_gate(struct way *way, uint32_t state)
{
    atomic_store(&way->gate, state);
    syscall(SYS_futex, &way->gate, FUTEX_WAKE_PRIVATE, MAX_FLOWS, NULL, NULL, 0);
}

void pause_until(struct way *way, int64_t until_ns)
{
    int64_t left;
    while (atomic_load(&way->gate) == GATE_OPEN && (left = until_ns - now_ns()) > 0) {
        const struct timespec timeout = {left / NS_PER_S, left % NS_PER_S};
        syscall(SYS_futex, &way->gate, FUTEX_WAIT_PRIVATE, GATE_OPEN, &timeout, NULL, 0);
    }
}

static void serve_flow(struct worker *worker)
{
    struct flow *flow = &worker->way->flows[worker->index];
    if (worker->way->role == SENDER)
        send_flow(worker, flow);
    else
        receive_flow(worker, flow);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct way *way = worker->way;
    worker->begun = worker->warm = cpu_time(RUSAGE_THREAD);
    worker->is_warm = way->bulk->params.warmup_s <= 0;
    pass_gate(way);
    if (way->threads == way->count)
        serve_flow(worker);
    else if (way->role == SENDER)
        pool_send(worker);
    else
        pool_receive(worker);
    if (!worker->is_warm)
        worker_split(worker);
    /* The part before the whole, which can't be smaller then. */
    worker->measured_cpu = cpu_since(worker->warm, RUSAGE_THREAD);
    worker->cpu = cpu_since(worker->begun, RUSAGE_THREAD);
    return NULL;
}

static bool start_worker(struct way *way, struct worker *worker, const pthread_attr_t *attributes)
{
    struct job *job = way->bulk->job;
    const int problem = pthread_create(&worker->thread, attributes, work, worker);
    if (problem)
        return job_fail(job, "resource", worker->index,
                        "no thread: %s; try fewer flows or threads, or raise the limits",
                        strerror(problem));
    worker->started = true;
    return pins_bind(job, &way->bulk->params.pins, worker->thread, worker->index);
}

static bool start_way(struct way *way, const pthread_attr_t *attributes)
{
    bool ok = true;
    for (int i = 0; ok && i < way->count; i++)
        if (way->role == SENDER)
            send_prepare(&way->flows[i]);
    if (way->threads < way->count)
        ok = pool_prepare(way);
    for (int i = 0; ok && i < way->threads; i++)
        ok = start_worker(way, &way->workers[i], attributes);
    return ok;
}

bool flows_start(struct bulk *bulk)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    const bool ok = payload_open(bulk) && start_way(&bulk->ways[RECEIVER], &attributes) &&
                    start_way(&bulk->ways[SENDER], &attributes);
    pthread_attr_destroy(&attributes);
    return ok;
}

void flows_release(struct bulk *bulk, int64_t deadline_ns)
{
    bulk->deadline_ns = deadline_ns;
    for (int i = 0; i < bulk->ways[SENDER].count; i++)
        send_first(&bulk->ways[SENDER].flows[i]);
    set_gate(&bulk->ways[SENDER], GATE_OPEN);
}

void flows_receive(struct bulk *bulk)
{
    set_gate(&bulk->ways[RECEIVER], GATE_OPEN);
}

void flows_cancel(struct bulk *bulk)
{
    atomic_store(&bulk->cancelled, true);
    set_gate(&bulk->ways[SENDER], GATE_CANCELLED);
    set_gate(&bulk->ways[RECEIVER], GATE_CANCELLED);
    /* Ends a blocked recv() and sends nothing, so that the close behind it can be a reset. */
    for (int i = 0; i < bulk->link.flows; i++)
        shutdown(bulk->flows[i].fd, SHUT_RD);
}

void flows_join(struct bulk *bulk)
{
    for (int role = 0; role < ROLES; role++) {
        struct way *way = &bulk->ways[role];
        for (int i = 0; i < way->count; i++)
            if (way->workers[i].started)
                pthread_join(way->workers[i].thread, NULL);
        if (way->threads < way->count)
            pool_close(way);
    }
    payload_close();
}
