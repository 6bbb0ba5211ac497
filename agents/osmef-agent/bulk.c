#include "bulk.h"

#include "clock.h"
#include "flow.h"
#include "payload.h"
#include "pool.h"
#include "sampler.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* How long the senders' queues may take to empty after the end, while they make progress; at least
 * stall_timeout_s. */
#define DRAIN_S 60.0

static struct bulk_params params; /* of the job that was read last */
static struct bulk bulk;

static const struct field fields[] = {
#define FIELDS_OF struct bulk_params
    WORD("direction", link.handshake.direction, bulk_directions, FORWARD),
    SIZE("bytes", link.handshake.bytes, 0, LARGEST_SIZE, 0),
    NUMBER("duration_s", duration_s, SHORTEST_S, LONGEST_S, NEEDED),
    NUMBER("warmup_s", warmup_s, 0, LONGEST_S, 0),
    NUMBER("interval_s", interval_s, SHORTEST_S, LONGEST_S, NEEDED),
    FLAG("until_stopped", until_stopped, false),
    NUMBER("active_s", active_s, SHORTEST_S, LONGEST_S, 0),
    NUMBER("idle_s", idle_s, SHORTEST_S, LONGEST_S, 0),
    WHOLE("threads", threads, 1, MAX_FLOWS, 0),
    WORD("mode", mode, bulk_modes, MODE_COPY),
    FIELDS_END,
#undef FIELDS_OF
};

static bool read_affinity(const struct json_object *command, struct affinity *affinity,
                          char *problem)
{
    struct list {
        char text[AFFINITY_SIZE];
    } list;
#define FIELDS_OF struct list
    static const struct field affinity_fields[] = {TEXT_OR("cpus", text, ""), FIELDS_END};
#undef FIELDS_OF
    if (!fields_read(command, affinity_fields, &list, problem))
        return false;
    if (!list.text[0] || affinity_read(list.text, affinity))
        return true;
    snprintf(problem, PROBLEM_SIZE, "cpus must be a list like 0,2,5 of at most %d CPUs",
             MAX_AFFINITY_CPUS);
    return false;
}

/* Returns what is wrong with the combination of the parameters, or NULL. */
static const char *misfit(const struct bulk_params *wanted)
{
    if (wanted->link.handshake.flows > MAX_FLOWS)
        return "connections must be at most 500 in both directions: each way has its own";
    if (wanted->idle_s > 0 && wanted->active_s <= 0 && !wanted->link.listens)
        return "idle_s needs active_s, the time between the pauses";
    if (wanted->active_s > 0 && wanted->idle_s <= 0)
        return "active_s needs idle_s, the length of the pauses";
    if (wanted->until_stopped && wanted->active_s > 0)
        return "until_stopped is for flows that don't pause";
    return NULL;
}

bool bulk_read(const struct json_object *command, struct bulk_params *wanted, char *problem)
{
    *wanted = (struct bulk_params){.link.handshake.kind = HANDSHAKE_BULK};
    if (!link_read(command, &wanted->link, problem) ||
        !fields_read(command, fields, wanted, problem) ||
        !read_affinity(command, &wanted->affinity, problem) ||
        !per_flow_options_read(command, &wanted->per_flow_options, problem))
        return false;
    if (wanted->link.handshake.direction == BOTH)
        wanted->link.handshake.flows = 2 * wanted->link.connections;
    const char *wrong = misfit(wanted);
    if (wrong)
        snprintf(problem, PROBLEM_SIZE, "%s", wrong);
    return !wrong;
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    return bulk_read(command, &params, problem);
}

/* Only entries in use are written: untouched pages of the arrays take no memory. */
static void set_way(enum role role, int first, int count)
{
    struct way *way = &bulk.ways[role];
    way->bulk = &bulk;
    way->role = role;
    way->count = count;
    way->flows = &bulk.flows[first];
    way->threads = bulk.params.threads && bulk.params.threads < count ? bulk.params.threads : count;
    way->begun = way->ended = 0;
    way->warm.taken = way->all_begun.taken = way->first_ended.taken = false;
    way->common_from = NULL;
    for (int i = 0; i < count; i++)
        way->flows[i] = (struct flow){.way = way,
                                      .index = i,
                                      .connection = first + i,
                                      .fd = bulk.threads.link.fds[first + i]};
    way->workers = &bulk.workers[bulk.threads.count];
    for (int i = 0; i < way->threads; i++) {
        struct flow_thread *thread = &bulk.threads.of[bulk.threads.count++];
        way->workers[i] = (struct worker){.thread = thread, .way = way, .index = i};
    }
}

/* With fewer threads than flows, each thread serves several flows. */
static void set_ways(void)
{
    const int forward = bulk.threads.forward;
    const enum role role = bulk.params.link.listens ? RECEIVER : SENDER;
    bulk.threads.count = 0;
    set_way(role, 0, forward);
    set_way(role == SENDER ? RECEIVER : SENDER, forward, bulk.threads.link.flows - forward);
}

static bool prepare_way(struct way *way)
{
    for (int i = 0; i < way->count; i++) {
        if (!per_flow_options_apply(bulk.threads.job, &bulk.params.per_flow_options,
                                    way->flows[i].fd, i))
            return false;
        if (way->role == SENDER)
            send_prepare(&way->flows[i]);
    }
    return way->threads == way->count || pool_prepare(way);
}

static bool prepare(struct flow_threads *threads)
{
    struct bulk_params *p = &bulk.params;
    if (threads->job->standalone) { /* from the handshake of the connecting end */
        p->duration_s = p->link.handshake.duration_ms / 1000.0;
        p->warmup_s = p->link.handshake.warmup_ms / 1000.0;
    }
    threads->stall_limit_s = p->link.stall_timeout_s + p->idle_s;
    threads->total_limit_s = bulk_sending_s(&bulk) + fmax(DRAIN_S, p->link.stall_timeout_s);
    bulk.is_warm = p->warmup_s <= 0;
    set_ways();
    /* A listening end without a controller has the number from the handshake. */
    p->link.connections = bulk.ways[threads_send(threads) ? SENDER : RECEIVER].count;
    return payload_open(&bulk) && prepare_way(&bulk.ways[RECEIVER]) &&
           prepare_way(&bulk.ways[SENDER]);
}

static void serve_flow(struct worker *worker)
{
    struct flow *flow = &worker->way->flows[worker->index];
    if (worker->way->role == SENDER)
        send_flow(worker, flow);
    else
        receive_flow(worker, flow);
}

static bool work_on(struct flow_thread *thread)
{
    struct worker *worker = &bulk.workers[thread->index];
    const struct way *way = worker->way;
    worker->is_warm = bulk.params.warmup_s <= 0;
    worker->warm = thread->cpu;
    if (!affinity_bind(thread, &bulk.params.affinity, worker->index) ||
        !thread_wait_gate(thread, way->role == SENDER ? GATE_SENDERS : GATE_OPEN))
        return false;
    if (way->threads == way->count)
        serve_flow(worker);
    else if (way->role == SENDER)
        pool_send(worker);
    else
        pool_receive(worker);
    if (!worker->is_warm)
        worker_split(worker);
    /* Read before the CPU time of the whole thread, of which it is a part. */
    worker->measured_cpu = cpu_since(worker->warm, RUSAGE_THREAD);
    return !thread->failure.kind;
}

static void write_connected(struct flow_threads *threads)
{
    (void)threads;
    bulk.view->connected(&bulk);
}

/* The start of an end that sends. */
static void begin(struct flow_threads *threads)
{
    bulk.deadline_ns = threads->start_ns + seconds_ns(bulk_sending_s(&bulk));
    for (int i = 0; i < bulk.ways[SENDER].count; i++)
        send_first(&bulk.ways[SENDER].flows[i]);
    sampler_start(&bulk);
}

static bool gather(struct flow_threads *threads, int64_t until_ns)
{
    static struct pollfd fds[1 + MAX_FLOWS];
    struct way *way = &bulk.ways[RECEIVER];
    if (way->begun == way->count)
        return false;
    for (int i = 0; i < way->count; i++)
        fds[1 + i] =
            (struct pollfd){.fd = way->flows[i].start_ns ? -1 : way->flows[i].fd, .events = POLLIN};
    control_wait(threads->job->control, fds, (nfds_t)way->count + 1, until_ns);
    for (int i = 0; i < way->count; i++) {
        struct flow *flow = &way->flows[i];
        const ssize_t n = fds[1 + i].revents ? receive_some(flow, MSG_DONTWAIT) : 1;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return job_fail(threads->job, "reset", flow->connection,
                            "the peer closed the flow before its end: %s",
                            strerror(n < 0 ? errno : ECONNRESET));
    }
    return true;
}

static void use_now(struct usage *usage)
{
    usage->at_ns = now_ns();
    usage->process = cpu_time(RUSAGE_SELF);
    usage->endpoint = endpoint_time();
}

/* Samples, and begins the count of CPU time when the warm-up is over. */
static int64_t tick(struct flow_threads *threads)
{
    const bool was_warm = bulk.is_warm;
    /* All senders check their deadline often. */
    if (bulk.params.until_stopped && threads->job->control->stop)
        atomic_store(&bulk.deadline_ns, 0);
    const int64_t next_ns = sampler_tick(&bulk);
    if (bulk.is_warm && !was_warm)
        use_now(&bulk.measured);
    return next_ns;
}

/* A sender's progress are the bytes that the peer has acknowledged, without those in buffers. */
static int64_t progress(const struct flow_threads *threads, int number)
{
    (void)threads;
    const struct flow *flow = &bulk.flows[number];
    if (atomic_load(&flow->has_ended))
        return FLOW_ENDED;
    const int64_t bytes = (int64_t)atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    return flow->way->role == SENDER ? bytes - tcp_unacknowledged(flow->fd) : bytes;
}

static void conclude(struct flow_threads *threads)
{
    struct usage *measured = &bulk.measured;
    const bool was_warm = bulk.is_warm;
    if (!was_warm)
        use_now(measured);
    if (bulk.params.warmup_s > 0) {
        measured->process = cpu_since(measured->process, RUSAGE_SELF);
        measured->endpoint = endpoint_since(measured->endpoint);
    }
    threads_count_use(threads);
    if (bulk.params.warmup_s <= 0)
        *measured = (struct usage){threads->start_ns, threads->process, threads->endpoint};
    sampler_finish(&bulk, threads->end_ns);
    /* The job ended in its warm-up: nothing was measured. */
    if (!was_warm) {
        sampler_end_warmup(&bulk, threads->end_ns);
        measured->at_ns = threads->end_ns;
    }
}

static const struct flow_work work = {.prepare = prepare,
                                      .run = work_on,
                                      .tick = tick,
                                      .go = '!',
                                      .connected = write_connected,
                                      .begin = begin,
                                      .gather = gather,
                                      .progress = progress,
                                      .end = conclude};

/* Finds the time in which all flows ran, after the warm-up. With a number of bytes there may be
 * none. */
static bool find_common_interval(struct job *job)
{
    struct way *way = &bulk.ways[RECEIVER];
    const struct snapshot *from = &way->all_begun;
    if (way->count == 0)
        return true;
    if (way->warm.taken && way->warm.at_ns > from->at_ns)
        from = &way->warm;
    if (way->first_ended.taken && way->first_ended.at_ns > from->at_ns && bulk.is_warm)
        way->common_from = from;
    return way->common_from || bulk.params.link.handshake.bytes > 0 ||
           job_fail(job, "no-overlap", -1,
                    "a flow ended before the last one began; measure longer or with fewer connections");
}

const struct bulk *bulk_run(struct job *job, const struct bulk_params *wanted,
                            const struct bulk_view *view)
{
    bulk.params = *wanted;
    bulk.params.link.handshake.duration_ms = (uint32_t)lround(wanted->duration_s * 1000);
    bulk.params.link.handshake.warmup_ms = (uint32_t)lround(wanted->warmup_s * 1000);
    bulk.view = view;
    bulk.threads.work = &work;
    const bool ok = affinity_allowed(job, &bulk.params.affinity) &&
                    threads_run(&bulk.threads, job, &bulk.params.link);
    pool_close();
    payload_close();
    return ok && find_common_interval(job) ? &bulk : NULL;
}

static bool run(struct job *job)
{
    return bulk_run(job, &params, &bulk_event_view) != NULL;
}

static void write_result(const struct job *job)
{
    (void)job;
    bulk_write_result(&bulk);
}

const struct kind bulk_kind = {"bulk", false, read_params, run, write_result, false};
