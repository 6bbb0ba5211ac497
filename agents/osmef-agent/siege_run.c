/* The threads of a siege: which one sends which request when. */
#include "siege_connection.h"

#include "clock.h"
#include "errors.h"
#include "events.h"
#include "out.h"
#include "pages.h"
#include "realtime_priority.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* A signal interrupts the wait, unless it comes just before it. */
#define CHECK_NS NS_PER_S
/* A century, which sums of times can't overflow. */
#define NEVER_NS 3e18

static struct {
    struct siege_worker *workers; /* one for each thread */
    struct siege_connection *connections;
    int count;
    int done; /* eventfd: a thread has finished */
} threads = {.done = -1};

/* Takes the next request, unless it is not due yet. Returns its number, or -1. */
static int64_t take_request(struct siege_worker *worker)
{
    const double rate = siege.params.rate_per_s;
    int64_t next = atomic_load_explicit(&siege.next, memory_order_relaxed);
    while (next < siege.count) {
        const int64_t now = now_ns();
        const int64_t start_ns =
            rate > 0 ? (int64_t)fmin((double)next / rate * (double)NS_PER_S, NEVER_NS)
                     : now - siege.start_ns;
        if (start_ns > now - siege.start_ns) {
            loop_due(&worker->loop, siege.start_ns + start_ns);
            return -1;
        }
        if (atomic_compare_exchange_weak_explicit(&siege.next, &next, next + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            siege.requests[next].start_ns = start_ns;
            return next;
        }
    }
    return -1;
}

/* Assigns requests to idle connections. A request at a rate without an idle connection waits for
 * one, and its duration counts from when it was due. */
static void dispatch(struct siege_worker *worker)
{
    const uint64_t one = 1;
    while (worker->idle_count > 0 &&
           !atomic_load_explicit(&worker->loop.stop, memory_order_relaxed)) {
        const int64_t asked = take_request(worker);
        if (asked < 0)
            break;
        connection_ask(worker, &worker->connections[worker->idle[--worker->idle_count]], asked);
    }
    if (worker->check_ns != FOREVER)
        loop_due(&worker->loop, worker->check_ns);
    if (worker->idle_count < worker->count || atomic_load(&siege.next) < siege.count)
        return;
    atomic_store(&worker->loop.stop, true);
    if (write(threads.done, &one, sizeof one) < 0)
        abort(); /* impossible */
}

static void ready(struct loop *loop, struct source *source, uint32_t events)
{
    struct siege_worker *worker = (struct siege_worker *)loop;
    connection_ready(worker, (struct siege_connection *)source, events);
    dispatch(worker);
}

static void tick(struct loop *loop)
{
    struct siege_worker *worker = (struct siege_worker *)loop;
    if (loop->now_ns >= worker->check_ns) {
        worker->check_ns = FOREVER;
        for (int i = 0; i < worker->count; i++) {
            struct siege_connection *connection = &worker->connections[i];
            if (connection->asked >= 0 && connection->due_ns <= loop->now_ns)
                connection_late(worker, connection);
            else if (connection->asked >= 0 && connection->due_ns < worker->check_ns)
                worker->check_ns = connection->due_ns;
        }
    }
    dispatch(worker);
}

/* Distributes the connections over the threads. */
static bool prepare(void)
{
    const int connections = siege.params.connections;
    threads.count = siege.params.threads < connections ? siege.params.threads : connections;
    threads.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    threads.workers = pages_map((size_t)threads.count * sizeof *threads.workers, 0);
    threads.connections = pages_map((size_t)connections * sizeof *threads.connections, 0);
    for (int i = 0; threads.connections && i < connections; i++) {
        threads.connections[i].source = (struct source){ready, -1};
        threads.connections[i].asked = -1;
    }
    bool ok = threads.done >= 0 && threads.workers && threads.connections;
    for (int i = 0, first = 0; ok && i < threads.count; i++) {
        struct siege_worker *worker = &threads.workers[i];
        worker->connections = threads.connections + first;
        worker->count = connections / threads.count + (i < connections % threads.count);
        worker->check_ns = FOREVER;
        first += worker->count;
        ok = loop_open(&worker->loop, i, tick);
    }
    return ok || job_fail(siege.job, "resource", -1,
                          "no memory or descriptors: %s; try fewer "
                          "threads or raise the limits",
                          strerror(errno));
}

static bool connect_failed(int why)
{
    if (is_resource_error(why))
        return job_fail_socket(siege.job, "resource", -1, why, "connections");
    return job_fail(siege.job, "connect", -1,
                    "can't connect to %s port %d: %s; is a server running there?",
                    siege.params.host, siege.params.port, strerror(why));
}

/* Waits until the connection is established. */
static bool await_connection(struct siege_connection *connection, int64_t deadline_ns)
{
    int why = 0;
    socklen_t size = sizeof why;
    struct pollfd fds[2] = {{0}, {.fd = connection->source.fd, .events = POLLOUT}};
    while (!fds[1].revents) {
        if (now_ns() >= deadline_ns)
            return job_fail(siege.job, "arm-timeout", -1,
                            "%s port %d took no connection within %g s; does a firewall drop "
                            "them?",
                            siege.params.host, siege.params.port, siege.params.arm_timeout_s);
        control_wait(siege.job->control, fds, 2, deadline_ns);
        if (job_aborted(siege.job))
            return false;
    }
    if (getsockopt(connection->source.fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0)
        why = errno;
    return why == 0 || connect_failed(why);
}

/* With keep-alive all connections are opened before the first request; otherwise a single one, to
 * show that the server can be reached. */
static bool connect_all(const struct socket_address *address)
{
    const int64_t deadline_ns = now_ns() + seconds_ns(siege.params.arm_timeout_s);
    const int wanted = siege.params.keep_alive ? siege.params.connections : 1;
    memcpy(&siege.address, &address->sockaddr, address->size);
    siege.address_size = address->size;
    for (int i = 0; i < wanted; i++)
        if (!connection_open(&threads.connections[i]))
            return connect_failed(errno);
    for (int i = 0; i < wanted; i++)
        if (!await_connection(&threads.connections[i], deadline_ns))
            return false;
    threads.workers[0].counts.connections = (uint64_t)wanted;
    return true;
}

static void close_connections(void)
{
    for (int i = 0; threads.connections && i < siege.params.connections; i++) {
        if (threads.connections[i].source.fd >= 0)
            close(threads.connections[i].source.fd);
        threads.connections[i].source.fd = -1;
    }
}

/* Writes the common part of all requests. */
static void write_texts(const char *authority)
{
    const char *path = siege.params.path;
    const char *found = strstr(path, SIEGE_MARK);
    const int size = found ? (int)(found - path) : (int)strlen(path);
    siege.sized = found != NULL;
    siege.before_size = snprintf(siege.before, sizeof siege.before, "GET %.*s", size, path);
    siege.behind_size =
        snprintf(siege.behind, sizeof siege.behind, "%s HTTP/1.1\r\nHost: %s\r\n%s\r\n",
                 found ? found + strlen(SIEGE_MARK) : "", authority,
                 siege.params.keep_alive ? "" : "Connection: close\r\n");
}

bool siege_connect(void)
{
    char authority[AUTHORITY_SIZE];
    struct address_list found;
    if (!prepare() || !resolve_peer(siege.job, siege.params.host, siege.params.port, &found))
        return false;
    resolve_authority(siege.params.host, siege.params.port, authority);
    write_texts(*siege.params.authority ? siege.params.authority : authority);
    bool ok = false;
    for (int i = 0; i < found.count && !ok; i++) {
        /* A name may have several addresses: if one can't be reached, the next is tried. */
        siege.job->failure.kind = NULL;
        ok = connect_all(&found.at[i]);
        if (!ok || !siege.params.keep_alive)
            close_connections();
        if (!ok && strcmp(siege.job->failure.kind, "connect") != 0)
            break;
    }
    return ok;
}

static bool start_threads(void)
{
    for (int i = 0; i < threads.count; i++) {
        struct siege_worker *worker = &threads.workers[i];
        for (int k = 0; k < worker->count; k++) {
            worker->idle[worker->idle_count++] = k;
            if (worker->connections[k].source.fd >= 0 &&
                !loop_watch(&worker->loop, &worker->connections[k].source))
                return connect_failed(errno);
        }
        worker->loop.due_ns = siege.start_ns;
    }
    for (int i = 0; i < threads.count; i++)
        if (!loop_start(&threads.workers[i].loop))
            return job_fail(siege.job, "resource", -1, "no thread: %s", strerror(errno));
    return true;
}

/* Prints how many requests have begun. */
static void write_progress(void)
{
    if (siege.job->report != &event_report)
        return;
    event_begin(siege.job, "progress");
    out_format(",\"elapsed_s\":%.3f,\"requests\":%lld", ns_seconds(now_ns() - siege.start_ns),
               (long long)atomic_load(&siege.next));
    event_end();
}

bool siege_run(void)
{
    const struct cpu_time cpu = cpu_time(RUSAGE_SELF);
    struct pollfd fds[2] = {{0}, {.fd = threads.done, .events = POLLIN}};
    siege.start_ns = now_ns();
    siege.start_realtime_ns = clock_ns(CLOCK_REALTIME);
    realtime_priority_drop(); /* threads would inherit it */
    bool ok = start_threads();
    const struct endpoint_time endpoint = endpoint_time(); /* reading it takes a while */
    int64_t check_ns = siege.start_ns + CHECK_NS;
    for (uint64_t ended = 0, more; ok && ended < (uint64_t)threads.count;) {
        control_wait(siege.job->control, fds, 2, check_ns);
        if (now_ns() >= check_ns) {
            write_progress();
            check_ns = now_ns() + CHECK_NS;
        }
        if (read(threads.done, &more, sizeof more) == sizeof more)
            ended += more;
        const int lack = atomic_load(&siege.lack);
        ok = !job_aborted(siege.job) && (lack == 0 || connect_failed(lack));
    }
    siege.end_ns = now_ns();
    siege.process = cpu_since(cpu, RUSAGE_SELF);
    siege.endpoint = endpoint_since(endpoint);
    return ok;
}

void siege_disconnect(void)
{
    for (int i = 0; threads.workers && i < threads.count; i++) {
        struct siege_worker *worker = &threads.workers[i];
        loop_close(&worker->loop);
        histogram_merge(&siege.counts.answered, &worker->counts.answered);
        siege.counts.bytes += worker->counts.bytes;
        siege.counts.connections += worker->counts.connections;
    }
    close_connections();
    if (threads.workers)
        munmap(threads.workers, (size_t)threads.count * sizeof *threads.workers);
    if (threads.connections)
        munmap(threads.connections, (size_t)siege.params.connections * sizeof *threads.connections);
    if (threads.done >= 0)
        close(threads.done);
    threads.workers = NULL;
    threads.connections = NULL;
    threads.done = -1;
}
