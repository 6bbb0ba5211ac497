#include "send.h"

#include "clock.h"
#include "flow.h"
#include "payload.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* What may lie in the sender's kernel before it is sent (TCP_NOTSENT_LOWAT, tcp(7)), in each flow
 * and in all. Unlimited, a slow link would take half a minute to empty the buffers that a few flows
 * fill; at high rates more measured slower with a copy, and faster without one. */
struct unsent {
    int largest;
    int smallest;
    int all;
};
static const struct unsent unsent_copy = {256 * 1024, 16 * 1024, 4 * 1024 * 1024};
static const struct unsent unsent_zerocopy = {2048 * 1024, 64 * 1024, 16 * 1024 * 1024};
#define FIRST_SIZE 1024
/* A sender that is blocked looks at its deadline this often: it can't overshoot a slow link's. */
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

/* How much is still to be sent, at most `most`. */
static size_t left_of(const struct flow *flow, size_t most)
{
    const uint64_t wanted = flow->way->bulk->params.link.opening.bytes;
    const uint64_t sent = atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    return wanted && wanted - sent < most ? (size_t)(wanted - sent) : most;
}

static void count(struct flow *flow, size_t sent)
{
    const uint64_t before = atomic_load_explicit(&flow->bytes, memory_order_relaxed);
    atomic_store_explicit(&flow->bytes, before + sent, memory_order_relaxed);
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
        is_cancelled(bulk))
        return (struct turn){.todo = FINISH};
    if (bulk->params.active_s <= 0)
        return (struct turn){.todo = SEND, .burst = 1};
    const int64_t active_ns = seconds_ns(bulk->params.active_s);
    const int64_t cycle_ns = active_ns + seconds_ns(bulk->params.idle_s);
    const int64_t since_ns = now - bulk->released_ns;
    const int64_t cycles = since_ns / cycle_ns;
    if (since_ns - cycles * cycle_ns < active_ns)
        return (struct turn){.todo = SEND, .burst = (int)cycles + 1};
    const int64_t next_ns = bulk->released_ns + (cycles + 1) * cycle_ns;
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
    if (is_cancelled(bulk))
        return ECANCELED;
    if (bulk->params.link.opening.bytes && !send_is_complete(flow) && !bulk->params.until_stopped)
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

static int send_payload(struct worker *worker, struct flow *flow)
{
    for (;;) {
        const struct turn turn = send_turn(flow->way->bulk, now_ns());
        if (turn.todo == FINISH || send_is_complete(flow))
            return send_shutdown(flow);
        if (turn.todo == REST) {
            pause_until(flow->way, turn.until_ns);
            continue;
        }
        const int problem = send_some(flow, turn.burst);
        if (problem)
            return problem;
        if (worker_must_split(worker))
            worker_split(worker);
    }
}

void send_flow(struct worker *worker, struct flow *flow)
{
    int problem = send_payload(worker, flow);
    if (!problem)
        problem = send_confirm(flow);
    flow_ended(flow, problem);
}
