#include "loop.h"

#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MS (NS_PER_S / 1000)

static void woken(struct loop *loop, struct source *source, uint32_t events)
{
    (void)loop, (void)source, (void)events;
}

bool loop_open(struct loop *loop, int index, void (*tick)(struct loop *loop))
{
    memset(loop, 0, offsetof(struct loop, pending_close));
    loop->pending_close_count = 0;
    loop->index = index;
    loop->tick = tick;
    loop->due_ns = FOREVER;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = (struct source){woken, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    const bool ok = loop->epoll >= 0 && loop->wake.fd >= 0 && loop_watch(loop, &loop->wake);
    if (!ok) {
        const int problem = errno;
        if (loop->epoll >= 0)
            close(loop->epoll);
        if (loop->wake.fd >= 0)
            close(loop->wake.fd);
        loop->epoll = 0;
        errno = problem;
    }
    return ok;
}

/* Counts batches of closed descriptors, for memory ordering. */
static atomic_uint closed;

void loop_sync(void)
{
    atomic_fetch_add_explicit(&closed, 0, memory_order_acquire);
}

static void close_pending(struct loop *loop)
{
    if (loop->pending_close_count == 0)
        return;
    atomic_fetch_add_explicit(&closed, 1, memory_order_release);
    for (int i = 0; i < loop->pending_close_count; i++)
        close(loop->pending_close[i]);
    loop->pending_close_count = 0;
}

/* epoll_wait(2) has a resolution of 1 ms: the last one or two before the due time are left to
 * ppoll(2). */
static int wait_events(struct loop *loop, struct epoll_event *events)
{
    const int64_t left = loop->due_ns == FOREVER ? FOREVER : loop->due_ns - now_ns();
    if (left > 0 && left < 2 * MS) {
        struct pollfd epoll = {.fd = loop->epoll, .events = POLLIN};
        const struct timespec timeout = {0, left};
        ppoll(&epoll, 1, &timeout, NULL);
    }
    const int timeout_ms = left < 2 * MS ? 0 : left >= 60 * NS_PER_S ? 60000 : (int)(left / MS) - 1;
    return epoll_wait(loop->epoll, events, LOOP_EVENTS, timeout_ms);
}

static void *run(void *argument)
{
    struct loop *loop = argument;
    struct epoll_event events[LOOP_EVENTS];
    prctl(PR_SET_TIMERSLACK, 1);
    while (!atomic_load_explicit(&loop->stop, memory_order_relaxed)) {
        const int count = wait_events(loop, events);
        loop->now_ns = now_ns();
        for (int i = 0; i < count; i++) {
            struct source *source = events[i].data.ptr;
            if (source->fd >= 0)
                source->ready(loop, source, events[i].events);
        }
        close_pending(loop);
        if (loop->now_ns >= loop->due_ns) {
            loop->due_ns = FOREVER;
            loop->tick(loop);
            close_pending(loop);
        }
    }
    return NULL;
}

bool loop_start(struct loop *loop)
{
    const int problem = pthread_create(&loop->thread, NULL, run, loop);
    loop->threaded = problem == 0;
    errno = problem;
    return loop->threaded;
}

void loop_stop(struct loop *loop)
{
    const uint64_t one = 1;
    atomic_store(&loop->stop, true);
    if (write(loop->wake.fd, &one, sizeof one) < 0)
        return; /* the counter is full: the loop is about to wake */
}

void loop_close(struct loop *loop)
{
    if (loop->epoll <= 0)
        return;
    if (loop->threaded) {
        loop_stop(loop);
        pthread_join(loop->thread, NULL);
    }
    close_pending(loop);
    close(loop->wake.fd);
    close(loop->epoll);
    loop->epoll = 0;
}

bool loop_watch(struct loop *loop, struct source *source)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = source};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0;
}

int loop_unwatch(struct loop *loop, struct source *source)
{
    const int fd = source->fd;
    source->fd = -1;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
    return fd;
}

void loop_due(struct loop *loop, int64_t at_ns)
{
    if (at_ns < loop->due_ns)
        loop->due_ns = at_ns;
}

void loop_drop(struct loop *loop, struct source *source)
{
    if (source->fd < 0)
        return;
    if (loop->pending_close_count == LOOP_PENDING_CLOSE)
        close(loop_unwatch(loop, source));
    else
        loop->pending_close[loop->pending_close_count++] = source->fd;
    source->fd = -1;
}

int loop_default_count(void)
{
    cpu_set_t cpus;
    const int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return count < MAX_LOOPS ? count : MAX_LOOPS;
}
