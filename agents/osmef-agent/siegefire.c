/* The threads of a siege: who sends which request when. */
#include "gun.h"

#include "clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* A signal by hand interrupts a wait, unless it comes just before it. */
#define LOOK_NS NS_PER_S
/* A century: a sum of times can hold it. */
#define NEVER_NS 3e18

static struct {
    struct barrage *barrages; /* one a thread */
    struct gun *guns;
    int threads;
    int done; /* eventfd: a thread has nothing more to do */
} field = {.done = -1};

/* Takes the next request, unless it is still to come. Returns its number, or -1. */
static int64_t take_shot(struct barrage *b)
{
    const double rate = siege.params.rate_per_s;
    int64_t next = atomic_load_explicit(&siege.next, memory_order_relaxed);
    while (next < siege.count) {
        const int64_t now = now_ns();
        const int64_t start_ns =
            rate > 0 ? (int64_t)fmin((double)next / rate * (double)NS_PER_S, NEVER_NS)
                     : now - siege.start_ns;
        if (start_ns > now - siege.start_ns) {
            loop_due(&b->loop, siege.start_ns + start_ns);
            return -1;
        }
        if (atomic_compare_exchange_weak_explicit(&siege.next, &next, next + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            siege.shots[next].start_ns = start_ns;
            return next;
        }
    }
    return -1;
}

/* Every idle gun gets a request, as long as there are any. A request of an open loop that finds
 * none waits for one: it is not given up, and its duration counts from when it was due. */
static void dispatch(struct barrage *b)
{
    const uint64_t one = 1;
    while (b->idle_count > 0 && !atomic_load_explicit(&b->loop.stop, memory_order_relaxed)) {
        const int64_t shot = take_shot(b);
        if (shot < 0)
            break;
        gun_fire(b, &b->guns[b->idle[--b->idle_count]], shot);
    }
    if (b->check_ns != FOREVER)
        loop_due(&b->loop, b->check_ns);
    if (b->idle_count < b->count || atomic_load(&siege.next) < siege.count)
        return;
    atomic_store(&b->loop.stop, true);
    if (write(field.done, &one, sizeof one) < 0)
        abort(); /* 2^64 threads */
}

static void ready(struct loop *loop, struct source *source, uint32_t events)
{
    struct barrage *b = (struct barrage *)loop;
    gun_ready(b, (struct gun *)source, events);
    dispatch(b);
}

static void tick(struct loop *loop)
{
    struct barrage *b = (struct barrage *)loop;
    if (loop->now_ns >= b->check_ns) {
        b->check_ns = FOREVER;
        for (int i = 0; i < b->count; i++) {
            struct gun *gun = &b->guns[i];
            if (gun->shot >= 0 && gun->due_ns <= loop->now_ns)
                gun_late(b, gun);
            else if (gun->shot >= 0 && gun->due_ns < b->check_ns)
                b->check_ns = gun->due_ns;
        }
    }
    dispatch(b);
}

static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Deals the guns out to the threads. */
static bool prepare(void)
{
    const int guns = siege.params.connections;
    field.threads = siege.params.threads < guns ? siege.params.threads : guns;
    field.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    field.barrages = map((size_t)field.threads * sizeof *field.barrages);
    field.guns = map((size_t)guns * sizeof *field.guns);
    for (int i = 0; field.guns && i < guns; i++) {
        field.guns[i].source = (struct source){ready, -1};
        field.guns[i].shot = -1;
    }
    bool ok = field.done >= 0 && field.barrages && field.guns;
    for (int i = 0, first = 0; ok && i < field.threads; i++) {
        struct barrage *b = &field.barrages[i];
        b->guns = field.guns + first;
        b->count = guns / field.threads + (i < guns % field.threads);
        b->check_ns = FOREVER;
        first += b->count;
        ok = loop_open(&b->loop, i, tick);
    }
    return ok || job_fail(siege.job, "resource", -1,
                          "no memory or descriptors: %s; try fewer "
                          "threads or raise the limits",
                          strerror(errno));
}

bool siege_lacks(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM;
}

static bool connect_failed(int why)
{
    if (siege_lacks(why))
        return job_fail(siege.job, "resource", -1,
                        "no socket: %s; try fewer connections or raise the limits", strerror(why));
    return job_fail(siege.job, "connect", -1,
                    "can't connect to %s port %d: %s; is a server running there?",
                    siege.params.host, siege.params.port, strerror(why));
}

/* Waits until the gun's connection is there. */
static bool await_connection(struct gun *gun, int64_t deadline_ns)
{
    int why = 0;
    socklen_t size = sizeof why;
    struct pollfd fds[2] = {{0}, {.fd = gun->source.fd, .events = POLLOUT}};
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
    if (getsockopt(gun->source.fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0)
        why = errno;
    return why == 0 || connect_failed(why);
}

/* With keep-alive all connections are there before the first request. Without, a single one shows
 * that the server can be reached. */
static bool connect_guns(const struct place *place)
{
    const int64_t deadline_ns = now_ns() + seconds_ns(siege.params.arm_timeout_s);
    const int wanted = siege.params.keep_alive ? siege.params.connections : 1;
    memcpy(&siege.address, &place->address, place->size);
    siege.address_size = place->size;
    for (int i = 0; i < wanted; i++)
        if (!gun_connect(&field.guns[i]))
            return connect_failed(errno);
    for (int i = 0; i < wanted; i++)
        if (!await_connection(&field.guns[i], deadline_ns))
            return false;
    field.barrages[0].counts.connections = (uint64_t)wanted;
    return true;
}

static void close_guns(void)
{
    for (int i = 0; field.guns && i < siege.params.connections; i++) {
        if (field.guns[i].source.fd >= 0)
            close(field.guns[i].source.fd);
        field.guns[i].source.fd = -1;
    }
}

/* What all requests have in common: made once. */
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
    struct places found;
    if (!prepare() ||
        !address_find(siege.job, siege.params.host, siege.params.port, &found, authority))
        return false;
    write_texts(authority);
    bool ok = false;
    for (int i = 0; i < found.count && !ok; i++) {
        /* A name may have several addresses: after one that can't be reached, the next. */
        siege.job->failure.kind = NULL;
        ok = connect_guns(&found.at[i]);
        if (!ok || !siege.params.keep_alive)
            close_guns();
        if (!ok && strcmp(siege.job->failure.kind, "connect") != 0)
            break;
    }
    return ok;
}

static bool start_threads(void)
{
    for (int i = 0; i < field.threads; i++) {
        struct barrage *b = &field.barrages[i];
        for (int k = 0; k < b->count; k++) {
            b->idle[b->idle_count++] = k;
            if (b->guns[k].source.fd >= 0 && !loop_watch(&b->loop, &b->guns[k].source))
                return connect_failed(errno);
        }
        b->loop.due_ns = siege.start_ns;
    }
    for (int i = 0; i < field.threads; i++)
        if (!loop_start(&field.barrages[i].loop))
            return job_fail(siege.job, "resource", -1, "no thread: %s", strerror(errno));
    return true;
}

bool siege_fire(void)
{
    const struct cpu_time cpu = cpu_time(RUSAGE_SELF);
    const struct endpoint_time endpoint = endpoint_time();
    struct pollfd fds[2] = {{0}, {.fd = field.done, .events = POLLIN}};
    siege.start_ns = now_ns();
    siege.start_realtime_ns = clock_ns(CLOCK_REALTIME);
    bool ok = start_threads();
    for (uint64_t ended = 0, more; ok && ended < (uint64_t)field.threads;) {
        control_wait(siege.job->control, fds, 2, now_ns() + LOOK_NS);
        if (read(field.done, &more, sizeof more) == sizeof more)
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
    for (int i = 0; field.barrages && i < field.threads; i++) {
        struct barrage *b = &field.barrages[i];
        loop_close(&b->loop);
        histogram_merge(&siege.counts.answered, &b->counts.answered);
        siege.counts.bytes += b->counts.bytes;
        siege.counts.connections += b->counts.connections;
    }
    close_guns();
    if (field.barrages)
        munmap(field.barrages, (size_t)field.threads * sizeof *field.barrages);
    if (field.guns)
        munmap(field.guns, (size_t)siege.params.connections * sizeof *field.guns);
    if (field.done >= 0)
        close(field.done);
    field.barrages = NULL;
    field.guns = NULL;
    field.done = -1;
}
