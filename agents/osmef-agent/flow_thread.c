/* Functions for the threads of flows. */
#include "clock.h"
#include "flow_threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A sleep ends so long before its time; the rest is a busy wait. A wakeup takes some 10 us, in a
 * virtual machine a few times that, and would be measured as a delay of the network. */
#define SPIN_NS 60000

bool thread_fail(struct flow_thread *thread, const char *kind, const char *format, ...)
{
    if (thread->failure.kind)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(thread->failure.message, sizeof thread->failure.message, format, arguments);
    va_end(arguments);
    thread->failure.kind = kind;
    thread->failure.flow = thread->flow;
    return false;
}

/* A futex(2) wakes all threads at once; with a condition variable they would queue for its mutex,
 * each one time slice after the other. */
bool thread_wait_gate(struct flow_thread *thread, uint32_t least)
{
    _Atomic uint32_t *const gate = &thread->threads->start_gate;
    for (uint32_t state; (state = atomic_load(gate)) < least;)
        syscall(SYS_futex, gate, FUTEX_WAIT_PRIVATE, state, NULL, NULL, 0);
    return !thread_is_cancelled(thread);
}

void threads_pause(struct flow_threads *threads, int64_t until_ns)
{
    const struct timespec until = {until_ns / NS_PER_S, until_ns % NS_PER_S};
    for (uint32_t state;
         (state = atomic_load(&threads->start_gate)) != GATE_CANCELLED && now_ns() < until_ns;)
        syscall(SYS_futex, &threads->start_gate, FUTEX_WAIT_BITSET_PRIVATE, state, &until, NULL,
                FUTEX_BITSET_MATCH_ANY);
}

bool thread_broken(struct flow_thread *thread, int why)
{
    if (why == ETIMEDOUT)
        return thread_fail(thread, "stalled", GAVE_UP);
    return thread_fail(thread, "reset", "the peer closed the flow before its end: %s",
                       strerror(why));
}

void thread_moved(struct flow_thread *thread)
{
    const uint64_t moves = atomic_load_explicit(&thread->moves, memory_order_relaxed);
    atomic_store_explicit(&thread->moves, moves + 1, memory_order_relaxed);
    if (moves > 0 || !thread->threads->params->listens)
        return;
    int64_t start_ns = 0;
    if (atomic_compare_exchange_strong(&thread->threads->start_ns, &start_ns, now_ns()))
        threads_wake(thread->threads);
}

bool thread_send(struct flow_thread *thread, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        const ssize_t n = send(thread->fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            thread_moved(thread);
        } else if (errno != EAGAIN && errno != EINTR) {
            return thread_broken(thread, errno);
        } else if (thread_is_cancelled(thread)) {
            return false;
        }
    }
    return true;
}

ssize_t thread_receive_some(struct flow_thread *thread, void *data, size_t size)
{
    ssize_t n;
    do
        n = recv(thread->fd, data, size, 0);
    while (n < 0 && (errno == EINTR || (errno == EAGAIN && !thread_is_cancelled(thread))));
    if (n > 0)
        thread_moved(thread);
    else if (n < 0)
        thread_broken(thread, errno);
    return n;
}

bool thread_receive(struct flow_thread *thread, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = thread_receive_some(thread, (char *)data + got, size - got);
        if (n <= 0)
            return n < 0 ? false : thread_broken(thread, ECONNRESET);
        if (thread_is_cancelled(thread)) /* recv() may not have blocked */
            return false;
        got += (size_t)n;
    }
    return true;
}

static bool await_end(struct flow_thread *thread)
{
    char unexpected;
    const ssize_t n = thread_receive_some(thread, &unexpected, 1);
    return n == 0 ||
           (n > 0 && thread_fail(thread, "protocol", "the peer sends more than was asked for"));
}

void thread_ended(struct flow_thread *thread)
{
    thread->end_ns = now_ns();
    tcp_state_read(thread->fd, &thread->tcp);
}

bool thread_end(struct flow_thread *thread)
{
    if (shutdown(thread->fd, SHUT_WR) < 0)
        return thread_broken(thread, errno);
    if (!await_end(thread))
        return false;
    if (tcp_unacknowledged(thread->fd) > 0)
        return thread_broken(thread, ECONNRESET);
    linger_reset(thread->fd, false);
    thread_ended(thread);
    return true;
}

/* Our FIN follows the one of the peer, which takes it as the confirmation. */
bool thread_end_too(struct flow_thread *thread)
{
    if (!await_end(thread))
        return false;
    linger_reset(thread->fd, false);
    shutdown(thread->fd, SHUT_WR);
    thread_ended(thread);
    return true;
}

bool thread_wait_until(struct flow_thread *thread, int64_t at_ns)
{
    threads_pause(thread->threads, at_ns - SPIN_NS);
    while (now_ns() < at_ns && !thread_is_cancelled(thread))
        ;
    return !thread_is_cancelled(thread);
}

bool thread_barrier_wait(struct flow_thread *thread, void (*last)(struct flow_threads *threads))
{
    struct flow_threads *threads = thread->threads;
    const uint32_t phase = atomic_load(&threads->barrier_phase);
    if (atomic_fetch_add(&threads->barrier_arrived, 1) + 1 == threads->count) {
        if (last)
            last(threads);
        atomic_store(&threads->barrier_arrived, 0);
        atomic_fetch_add(&threads->barrier_phase, 1);
        syscall(SYS_futex, &threads->barrier_phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    while (atomic_load(&threads->barrier_phase) == phase && !thread_is_cancelled(thread))
        syscall(SYS_futex, &threads->barrier_phase, FUTEX_WAIT_PRIVATE, phase, NULL, NULL, 0);
    return !thread_is_cancelled(thread);
}
