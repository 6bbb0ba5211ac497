/* What the threads of a crew do on their flows. */
#include "clock.h"
#include "crew.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A sleep ends so much before its moment; the rest is spent looking at the clock. Waking takes
 * some 10 us, in a virtual machine a few times that, and would count as the network's. */
#define SPIN_NS 60000

bool hand_fail(struct hand *hand, const char *kind, const char *format, ...)
{
    if (hand->failure.kind)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(hand->failure.message, sizeof hand->failure.message, format, arguments);
    va_end(arguments);
    hand->failure.kind = kind;
    return false;
}

bool hand_broken(struct hand *hand, int why)
{
    if (why == ETIMEDOUT)
        return hand_fail(hand, "stalled", GAVE_UP);
    return hand_fail(hand, "reset", "the peer closed the flow before its end: %s", strerror(why));
}

/* While the job runs its gate is open. */
bool hand_is_cancelled(const struct hand *hand)
{
    return atomic_load_explicit(&hand->crew->gate, memory_order_relaxed) != GATE_OPEN;
}

void hand_moved(struct hand *hand)
{
    const uint64_t moves = atomic_load_explicit(&hand->moves, memory_order_relaxed);
    atomic_store_explicit(&hand->moves, moves + 1, memory_order_relaxed);
    if (moves > 0 || !hand->crew->params->listens)
        return;
    int64_t start_ns = 0;
    if (atomic_compare_exchange_strong(&hand->crew->start_ns, &start_ns, now_ns()))
        crew_wake(hand->crew);
}

bool hand_send(struct hand *hand, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        const ssize_t n = send(hand->fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            hand_moved(hand);
        } else if (errno != EAGAIN && errno != EINTR) {
            return hand_broken(hand, errno);
        } else if (hand_is_cancelled(hand)) {
            return false;
        }
    }
    return true;
}

ssize_t hand_receive_some(struct hand *hand, void *data, size_t size)
{
    ssize_t n;
    do
        n = recv(hand->fd, data, size, 0);
    while (n < 0 && (errno == EINTR || (errno == EAGAIN && !hand_is_cancelled(hand))));
    if (n > 0)
        hand_moved(hand);
    else if (n < 0)
        hand_broken(hand, errno);
    return n;
}

bool hand_receive(struct hand *hand, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = hand_receive_some(hand, (char *)data + got, size - got);
        if (n <= 0)
            return n < 0 ? false : hand_broken(hand, ECONNRESET);
        if (hand_is_cancelled(hand)) /* nothing had to be waited for */
            return false;
        got += (size_t)n;
    }
    return true;
}

static bool await_end(struct hand *hand)
{
    char unexpected;
    const ssize_t n = hand_receive_some(hand, &unexpected, 1);
    return n == 0 ||
           (n > 0 && hand_fail(hand, "protocol", "the peer sends more than was asked for"));
}

bool hand_end(struct hand *hand)
{
    if (shutdown(hand->fd, SHUT_WR) < 0)
        return hand_broken(hand, errno);
    if (!await_end(hand))
        return false;
    if (tcp_unacknowledged(hand->fd) > 0)
        return hand_broken(hand, ECONNRESET);
    linger_reset(hand->fd, false);
    return true;
}

/* A peer that sees our end has to know that we have seen its own. */
bool hand_end_too(struct hand *hand)
{
    if (!await_end(hand))
        return false;
    linger_reset(hand->fd, false);
    shutdown(hand->fd, SHUT_WR);
    return true;
}

bool hand_wait_until(struct hand *hand, int64_t at_ns)
{
    const int64_t wake_ns = at_ns - SPIN_NS;
    const struct timespec until = {wake_ns / NS_PER_S, wake_ns % NS_PER_S};
    while (now_ns() < wake_ns && !hand_is_cancelled(hand))
        syscall(SYS_futex, &hand->crew->gate, FUTEX_WAIT_BITSET_PRIVATE, GATE_OPEN, &until, NULL,
                FUTEX_BITSET_MATCH_ANY);
    while (now_ns() < at_ns && !hand_is_cancelled(hand))
        ;
    return !hand_is_cancelled(hand);
}

bool hand_meet(struct hand *hand, void (*decide)(struct crew *crew))
{
    struct crew *crew = hand->crew;
    const uint32_t meeting = atomic_load(&crew->meeting);
    if (atomic_fetch_add(&crew->arrived, 1) + 1 == crew->count) {
        if (decide)
            decide(crew);
        atomic_store(&crew->arrived, 0);
        atomic_fetch_add(&crew->meeting, 1);
        syscall(SYS_futex, &crew->meeting, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    while (atomic_load(&crew->meeting) == meeting && !hand_is_cancelled(hand))
        syscall(SYS_futex, &crew->meeting, FUTEX_WAIT_PRIVATE, meeting, NULL, NULL, 0);
    return !hand_is_cancelled(hand);
}
