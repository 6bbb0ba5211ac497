#include "flow.h"

#include "clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GATE_SHUT, GATE_OPEN };

/* Measured on loopback and between namespaces: 64 KiB to 256 KiB cost up to half as much CPU time
 * again for each byte, 1 MiB saves nothing. */
#define BUFFER_SIZE (512 * 1024)
/* What may lie in a sender's kernel before it is sent (TCP_NOTSENT_LOWAT, tcp(7)). Unlimited, a
 * slow link would take half a minute to empty the buffers that a few flows fill; at high rates this
 * measured no slower. */
#define UNSENT_SIZE (256 * 1024)
#define FIRST_SIZE 1024
#define STACK_SIZE (256 * 1024)
/* A sender that is blocked looks at its deadline this often: it can't overshoot a slow link's. */
#define SEND_TIMEOUT_US 20000

/* The buffers of all receivers together; each has at least SMALLEST_BUFFER. */
#define BUFFERS_SIZE (16 * 1024 * 1024)
#define SMALLEST_BUFFER (64 * 1024)

/* All senders read the same payload; each receiver writes to a buffer of its own. */
static _Alignas(4096) unsigned char payload[BUFFER_SIZE];
static unsigned char *received;
static size_t received_size; /* of each */

static void take_snapshot(struct bulk *bulk, struct snapshot *snapshot)
{
    snapshot->at_ns = now_ns();
    for (int i = 0; i < bulk->count; i++)
        snapshot->bytes[i] = atomic_load_explicit(&bulk->flows[i].bytes, memory_order_relaxed);
    atomic_store(&snapshot->taken, true);
}

static void wake_main(const struct bulk *bulk)
{
    eventfd_write(bulk->wake, 1);
}

/* The first flow of a receiver starts its clock; the flow that is the last to begin marks the
 * common interval's start. No locks: 128 threads that queue for one begin late. */
static void mark_begun(struct flow *flow)
{
    struct bulk *bulk = flow->bulk;
    int64_t start_ns = 0;
    flow->start_ns = now_ns();
    if (atomic_compare_exchange_strong(&bulk->start_ns, &start_ns, flow->start_ns))
        wake_main(bulk);
    else if (flow->start_ns < start_ns)
        flow->start_ns = start_ns;
    if (atomic_fetch_add(&bulk->begun, 1) + 1 == bulk->count)
        take_snapshot(bulk, &bulk->all_begun);
}

/* The flow that is the first to end marks the common interval's end, if it has begun. */
static void mark_ended(struct flow *flow, struct cpu_time begun)
{
    struct bulk *bulk = flow->bulk;
    flow->end_ns = now_ns();
    if (atomic_fetch_add(&bulk->ended, 1) == 0 && atomic_load(&bulk->all_begun.taken))
        take_snapshot(bulk, &bulk->first_ended);
    flow->cpu = cpu_since(begun, RUSAGE_THREAD);
    tcp_state_read(flow->fd, &flow->tcp);
    atomic_store(&flow->has_ended, true);
    wake_main(bulk);
}

/* The first bytes of all flows leave from one thread. With many flows on few CPUs the last thread
 * gets its turn a time slice of each other one later, and so would begin late. */
static void send_first(struct flow *flow)
{
    mark_begun(flow);
    const ssize_t n = send(flow->fd, payload, FIRST_SIZE, MSG_NOSIGNAL | MSG_DONTWAIT);
    flow->bytes = n > 0 ? (uint64_t)n : 0;
}

/* Returns 0, or the errno of what went wrong. */
static int send_payload(struct flow *flow, int64_t deadline_ns)
{
    uint64_t total = flow->bytes;
    while (now_ns() < deadline_ns &&
           !atomic_load_explicit(&flow->bulk->cancelled, memory_order_relaxed)) {
        const ssize_t n = send(flow->fd, payload, BUFFER_SIZE, MSG_NOSIGNAL);
        if (n > 0)
            atomic_store_explicit(&flow->bytes, total += (uint64_t)n, memory_order_relaxed);
        else if (errno != EAGAIN && errno != EINTR)
            return errno;
    }
    return 0;
}

/* Ends the flow and waits until the receiver has read everything and closed. */
static int wait_drained(struct flow *flow)
{
    char unexpected;
    if (atomic_load(&flow->bulk->cancelled))
        return ECANCELED;
    if (shutdown(flow->fd, SHUT_WR) < 0)
        return errno;
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

/* Waits until the gate opens. A futex(2) wakes all at once; behind a condition variable they would
 * queue for its mutex, each a time slice after the other. */
static void pass_gate(struct bulk *bulk)
{
    while (atomic_load(&bulk->gate) == GATE_SHUT)
        syscall(SYS_futex, &bulk->gate, FUTEX_WAIT_PRIVATE, GATE_SHUT, NULL, NULL, 0);
}

static void open_gate(struct bulk *bulk)
{
    atomic_store(&bulk->gate, GATE_OPEN);
    syscall(SYS_futex, &bulk->gate, FUTEX_WAKE_PRIVATE, MAX_FLOWS, NULL, NULL, 0);
}

static void *send_flow(void *argument)
{
    struct flow *flow = argument;
    const struct cpu_time begun = cpu_time(RUSAGE_THREAD);
    pass_gate(flow->bulk);
    flow->problem = send_payload(flow, flow->bulk->deadline_ns);
    if (!flow->problem)
        flow->problem = wait_drained(flow);
    mark_ended(flow, begun);
    return NULL;
}

/* Returns as recv() does, signals aside. */
static ssize_t read_some(struct flow *flow)
{
    ssize_t n;
    do
        n = recv(flow->fd, received + (size_t)flow->index * received_size, received_size, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Tells the sender that everything has been read. */
static void close_properly(const struct flow *flow)
{
    linger_reset(flow->fd, false);
    shutdown(flow->fd, SHUT_WR);
}

static void *receive_flow(void *argument)
{
    struct flow *flow = argument;
    const struct cpu_time begun = cpu_time(RUSAGE_THREAD);
    uint64_t total = 0;
    ssize_t n;
    while ((n = read_some(flow)) > 0) {
        atomic_store_explicit(&flow->bytes, total + (uint64_t)n, memory_order_relaxed);
        if (total == 0)
            mark_begun(flow);
        total += (uint64_t)n;
    }
    flow->problem = n < 0 ? errno : total == 0 ? ECONNRESET : 0;
    if (!flow->problem)
        close_properly(flow);
    mark_ended(flow, begun);
    return NULL;
}

/* Pages that are touched now cost no time in the transfer. The payload does not compress. */
static void prepare_payload(void)
{
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < BUFFER_SIZE; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        payload[i] = (unsigned char)(random >> 56);
    }
}

static bool map_buffers(struct bulk *bulk)
{
    received_size = BUFFERS_SIZE / (size_t)bulk->count;
    if (received_size > BUFFER_SIZE)
        received_size = BUFFER_SIZE;
    if (received_size < SMALLEST_BUFFER)
        received_size = SMALLEST_BUFFER;
    void *const memory = mmap(NULL, received_size * (size_t)bulk->count, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return job_fail(bulk->job, "resource", -1, "no memory for %d flows: %s", bulk->count,
                        strerror(errno));
    received = memory;
    return true;
}

static void set_send_options(int fd)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    const int unsent = UNSENT_SIZE;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static bool start_thread(struct bulk *bulk, struct flow *flow, const pthread_attr_t *attributes)
{
    const bool sender = bulk->role == SENDER;
    if (sender)
        set_send_options(flow->fd);
    const int problem =
        pthread_create(&flow->thread, attributes, sender ? send_flow : receive_flow, flow);
    flow->threaded = problem == 0;
    return flow->threaded ||
           job_fail(bulk->job, "resource", flow->index,
                    "no thread: %s; try fewer flows or raise the limits", strerror(problem));
}

bool flows_start(struct bulk *bulk)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    bool ok = true;
    if (bulk->role == SENDER)
        prepare_payload();
    else
        ok = map_buffers(bulk);
    for (int i = 0; ok && i < bulk->count; i++)
        ok = start_thread(bulk, &bulk->flows[i], &attributes);
    pthread_attr_destroy(&attributes);
    return ok;
}

void flows_release(struct bulk *bulk, int64_t deadline_ns)
{
    bulk->deadline_ns = deadline_ns;
    for (int i = 0; i < bulk->count; i++)
        send_first(&bulk->flows[i]);
    open_gate(bulk);
}

void flows_cancel(struct bulk *bulk)
{
    atomic_store(&bulk->cancelled, true);
    open_gate(bulk);
    /* Ends a blocked recv() and sends nothing, so that the close behind it can be a reset. */
    for (int i = 0; i < bulk->count; i++)
        shutdown(bulk->flows[i].fd, SHUT_RD);
}

void flows_join(struct bulk *bulk)
{
    for (int i = 0; i < bulk->count; i++)
        if (bulk->flows[i].threaded)
            pthread_join(bulk->flows[i].thread, NULL);
    if (received)
        munmap(received, received_size * (size_t)bulk->count);
    received = NULL;
}
