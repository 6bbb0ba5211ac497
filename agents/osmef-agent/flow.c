#include "flow.h"

#include "clock.h"
#include "payload.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

static void take_snapshot(struct way *way, struct snapshot *snapshot, int64_t at_ns)
{
    snapshot->at_ns = at_ns;
    for (int i = 0; i < way->count; i++)
        snapshot->bytes[i] = atomic_load_explicit(&way->flows[i].bytes, memory_order_relaxed);
    atomic_store(&snapshot->taken, true);
}

static void count(struct flow *flow, size_t bytes)
{
    const uint64_t before = atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    atomic_store_explicit(&flow->bytes, before + bytes, memory_order_relaxed);
}

/* Records the first byte. At an end that only receives, the first flow to begin sets the start of
 * the job; the last flow to begin sets the start of the common interval. Without locks, as 128
 * threads that queue for one would begin late. */
static void flow_begun(struct flow *flow)
{
    struct way *way = flow->way;
    struct flow_threads *threads = &way->bulk->threads;
    int64_t start_ns = 0;
    flow->start_ns = now_ns();
    if (!atomic_compare_exchange_strong(&threads->start_ns, &start_ns, flow->start_ns) &&
        flow->start_ns < start_ns)
        flow->start_ns = start_ns;
    if (atomic_fetch_add(&way->begun, 1) + 1 == way->count)
        take_snapshot(way, &way->all_begun, now_ns());
}

/* The first flow to end sets the end of the common interval, if that has begun. */
void flow_ended(struct flow_thread *thread, struct flow *flow, int problem)
{
    struct way *way = flow->way;
    const struct link_params *link = &way->bulk->params.link;
    flow->end_ns = thread->end_ns = now_ns();
    thread->flow = flow->connection;
    if (problem == ETIME)
        thread_fail(thread, "timeout",
                    "%llu of %llu bytes were sent in %g s; allow a longer time or fewer bytes",
                    (unsigned long long)flow->bytes, (unsigned long long)link->handshake.bytes,
                    bulk_sending_s(way->bulk));
    else if (problem)
        thread_broken(thread, problem);
    if (atomic_fetch_add(&way->ended, 1) == 0 && atomic_load(&way->all_begun.taken))
        take_snapshot(way, &way->first_ended, flow->end_ns);
    tcp_state_read(flow->fd, &flow->tcp);
    flow->mptcp = link->options.mptcp ? options_mptcp(flow->fd) : 0;
    atomic_store(&flow->has_ended, true);
}

void worker_split(struct worker *worker)
{
    worker->is_warm = true;
    worker->warm = cpu_time(RUSAGE_THREAD);
}

/* The limit of unsent data in the sender's kernel (TCP_NOTSENT_LOWAT, tcp(7)), for each flow and
 * for all. Without a limit, a slow link would take half a minute to empty the buffers of a few
 * flows; at high rates a larger limit measured slower with a copy, and faster without one. */
struct unsent {
    int largest;
    int smallest;
    int all;
};
static const struct unsent unsent_copy = {256 * 1024, 16 * 1024, 4 * 1024 * 1024};
static const struct unsent unsent_zerocopy = {2048 * 1024, 64 * 1024, 16 * 1024 * 1024};
#define FIRST_SIZE 1024
/* A blocked sender checks its deadline this often, so that it does not overshoot it on a slow
 * link. */
#define SEND_TIMEOUT_US 20000

void send_prepare(struct flow *flow)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    const struct unsent *limit = payload_is_file() ? &unsent_zerocopy : &unsent_copy;
    int unsent = limit->all / flow->way->count;
    unsent = unsent > limit->largest    ? limit->largest
             : unsent < limit->smallest ? limit->smallest
                                        : unsent;
    setsockopt(flow->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(flow->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

/* How many bytes are left to send, at most `most`. */
static size_t left_of(const struct flow *flow, size_t most)
{
    const uint64_t wanted = flow->way->bulk->params.link.handshake.bytes;
    const uint64_t sent = atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    return wanted && wanted - sent < most ? (size_t)(wanted - sent) : most;
}

void send_first(struct flow *flow)
{
    flow_begun(flow);
    flow->bursts = 1;
    const ssize_t n = payload_send_copy(flow->fd, left_of(flow, FIRST_SIZE), MSG_DONTWAIT);
    if (n > 0)
        count(flow, (size_t)n);
}

bool send_is_complete(const struct flow *flow)
{
    return left_of(flow, 1) == 0;
}

struct turn send_turn(const struct bulk *bulk, int64_t now)
{
    if (now >= atomic_load_explicit(&bulk->deadline_ns, memory_order_relaxed) ||
        threads_are_cancelled(&bulk->threads))
        return (struct turn){.todo = FINISH};
    if (bulk->params.active_s <= 0)
        return (struct turn){.todo = SEND, .burst = 1};
    const int64_t active_ns = seconds_ns(bulk->params.active_s);
    const int64_t cycle_ns = active_ns + seconds_ns(bulk->params.idle_s);
    const int64_t since_ns = now - bulk->threads.start_ns;
    const int64_t cycles = since_ns / cycle_ns;
    if (since_ns - cycles * cycle_ns < active_ns)
        return (struct turn){.todo = SEND, .burst = (int)cycles + 1};
    const int64_t next_ns = bulk->threads.start_ns + (cycles + 1) * cycle_ns;
    return (struct turn){
        .todo = REST,
        .until_ns = next_ns < bulk->deadline_ns ? next_ns : bulk->deadline_ns,
    };
}

int send_some(struct flow *flow, int burst)
{
    const ssize_t n = payload_send(flow, left_of(flow, PAYLOAD_SIZE));
    if (n > 0) {
        count(flow, (size_t)n);
        flow->bursts = burst;
        return 0;
    }
    return errno == EAGAIN || errno == EINTR ? 0 : errno;
}

int send_shutdown(struct flow *flow)
{
    const struct bulk *bulk = flow->way->bulk;
    flow->finished = true;
    if (threads_are_cancelled(&bulk->threads))
        return ECANCELED;
    if (bulk->params.link.handshake.bytes && !send_is_complete(flow) && !bulk->params.until_stopped)
        return ETIME;
    return shutdown(flow->fd, SHUT_WR) < 0 ? errno : 0;
}

int send_confirm(const struct flow *flow)
{
    char unexpected;
    const ssize_t n = recv(flow->fd, &unexpected, 1, 0);
    if (n < 0)
        return errno;
    if (n > 0)
        return EPROTO;
    if (tcp_unacknowledged(flow->fd) > 0)
        return ECONNRESET;
    linger_reset(flow->fd, false);
    return 0;
}

/* A flow whose thread got no CPU until the deadline sends once more: a receiver has no rate from a
 * single read. */
static int send_payload(struct worker *worker, struct flow *flow)
{
    bool has_sent = false;
    for (;;) {
        struct turn turn = send_turn(flow->way->bulk, now_ns());
        if (turn.todo == FINISH && !has_sent && !threads_are_cancelled(worker->thread->threads))
            turn = (struct turn){.todo = SEND, .burst = flow->bursts};
        if (turn.todo == FINISH || send_is_complete(flow))
            return send_shutdown(flow);
        if (turn.todo == REST) {
            threads_pause(worker->thread->threads, turn.until_ns);
            continue;
        }
        const int problem = send_some(flow, turn.burst);
        if (problem)
            return problem;
        has_sent = true;
        if (worker_must_split(worker))
            worker_split(worker);
    }
}

void send_flow(struct worker *worker, struct flow *flow)
{
    int problem = send_payload(worker, flow);
    if (!problem)
        problem = send_confirm(flow);
    flow_ended(worker->thread, flow, problem);
}

/* A wakeup for every few segments costs a receiver that keeps up more than reading them. One that
 * reads this much in this time, QUICK_READS times in succession, gets a receive low-water mark of
 * that size (SO_RCVLOWAT, socket(7)). Bytes in the kernel's buffer are in no interval; at this rate
 * they are few. With 256 KiB for each of 8 flows the data fell out of the CPU's cache. With a copy
 * at both ends, 8 flows on loopback measured slower with a low-water mark. */
#define RCVLOWAT_BYTES (128 * 1024)
#define RCVLOWAT_NS (NS_PER_S / 2000)
/* A flow is slow when it takes this many times as long. */
#define SLOW_FACTOR 4
#define QUICK_READS 16
/* Reads of a flow that became slow before the low-water mark is tried again. */
#define BACKOFF_READS 1000

static void set_rcvlowat(struct flow *flow, bool on)
{
    const int bytes = on ? RCVLOWAT_BYTES : 1;
    flow->rcvlowat = on;
    setsockopt(flow->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

static void adapt_rcvlowat(struct flow *flow, size_t n)
{
    const int64_t now = now_ns();
    const int64_t took_ns = now - flow->read_ns;
    const int64_t due_ns = (int64_t)n * RCVLOWAT_NS / RCVLOWAT_BYTES;
    flow->read_ns = now;
    if (took_ns > SLOW_FACTOR * due_ns) {
        flow->quick_reads = flow->rcvlowat ? -BACKOFF_READS : 0;
        if (flow->rcvlowat)
            set_rcvlowat(flow, false);
    } else if (took_ns <= due_ns && !flow->rcvlowat && ++flow->quick_reads >= QUICK_READS) {
        set_rcvlowat(flow, true);
    }
}

/* A given window, or one of small segments, may be smaller than the low-water mark. */
static bool may_set_rcvlowat(const struct bulk_params *params)
{
    const struct socket_options *options = &params->link.options;
    return params->mode != MODE_COPY && !options->window && !options->mss;
}

ssize_t receive_some(struct flow *flow, int flags)
{
    const ssize_t n = payload_receive(flow, flags);
    if (n > 0) {
        const bool first = atomic_load_explicit(&flow->bytes, memory_order_relaxed) == 0;
        count(flow, (size_t)n);
        if (first)
            flow_begun(flow);
        if (may_set_rcvlowat(&flow->way->bulk->params))
            adapt_rcvlowat(flow, (size_t)n);
    }
    return n;
}

/* A flow that ended without an error may still differ from the parameters of the job. */
static bool check_end(struct flow_thread *thread, const struct flow *flow)
{
    const struct bulk *bulk = flow->way->bulk;
    const uint64_t wanted = bulk->params.link.handshake.bytes;
    const double length_s = ns_seconds(flow->end_ns - bulk->threads.start_ns);
    if (bulk->params.until_stopped)
        return true;
    if (wanted && flow->bytes != wanted)
        return thread_fail(thread, "reset", "the sender ended the flow after %llu bytes, not %llu",
                           (unsigned long long)flow->bytes, (unsigned long long)wanted);
    if (!wanted && length_s < bulk_sending_s(bulk) - EARLY_SLACK_S)
        return thread_fail(thread, "reset", "the sender ended the flow after %.2f s, not %g s",
                           length_s, bulk_sending_s(bulk));
    return true;
}

void receive_ended(struct flow_thread *thread, struct flow *flow, ssize_t how)
{
    const int problem = threads_are_cancelled(&flow->way->bulk->threads) ? ECANCELED
                        : how < 0                                        ? errno
                        : flow->bytes == 0                               ? ECONNRESET
                                                                         : 0;
    if (!problem) {
        /* The FIN reports to the sender that everything has been read. */
        linger_reset(flow->fd, false);
        shutdown(flow->fd, SHUT_WR);
    }
    flow_ended(thread, flow, problem);
    if (!problem)
        check_end(thread, flow);
}

void receive_flow(struct worker *worker, struct flow *flow)
{
    ssize_t n = 0;
    /* shutdown() ends a blocked recv(), but recv() does not block while there is data. */
    while (!threads_are_cancelled(&flow->way->bulk->threads) &&
           ((n = receive_some(flow, 0)) > 0 || (n < 0 && errno == EINTR)))
        if (worker_must_split(worker))
            worker_split(worker);
    receive_ended(worker->thread, flow, n);
}
