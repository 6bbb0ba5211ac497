/* Requests in datagrams of UDP or ICMP: one that has no answer is lost. */
#include "clock.h"
#include "echo.h"
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* As in thread_wait_until(): a wakeup takes a while. */
#define SPIN_NS 60000
#define LARGEST (PROBE_MAX_BYTES + 128)

static _Thread_local unsigned char text[LARGEST];

/* The datagrams of a flow. Those from `oldest` on, up to `sent`, may still be answered. */
struct requests_in_flight {
    struct flow_thread *thread;
    struct exchange *exchange;
    struct requester *requester;
    const struct probe *probe;
    const struct schedule *schedule;
    int64_t threshold_ns;
    uint64_t sent;
    uint64_t oldest;
    int64_t next_ns; /* without a period: when the next one is due */
};

static int64_t *sent_at(const struct requests_in_flight *flight, uint64_t number)
{
    return &flight->requester->sent_ns[number % MAX_UNANSWERED];
}

/* The due time of a request; without a period, when it was sent. */
static int64_t due_at(const struct requests_in_flight *flight, uint64_t number)
{
    return flight->schedule->period_ns > 0 ? schedule_due(flight->schedule, number)
                                           : *sent_at(flight, number);
}

/* A datagram that the kernel does not accept counts as sent, and is lost, unless it is too
 * large. */
static bool send_next(struct requests_in_flight *flight)
{
    const struct exchange_params *params = &flight->exchange->params;
    const bool echo = params->protocol == ICMP;
    size_t size = (size_t)params->request_size;
    probe_header_write(flight->thread, flight->sent, text + (echo ? ECHO_HEADER_SIZE : 0));
    if (echo)
        size = echo_write(flight->probe, flight->sent, text, size);
    *sent_at(flight, flight->sent++) = now_ns();
    thread_moved(flight->thread);
    if (send(flight->probe->fd, text, size, MSG_NOSIGNAL) < 0 && errno == EMSGSIZE)
        return thread_fail(flight->thread, "option",
                           "a datagram of %zu bytes is too large here: %s", size, strerror(errno));
    return true;
}

/* Records an answer, unless it is a duplicate, too late, or of another flow or job. */
static void record_answer(struct requests_in_flight *flight, ssize_t size)
{
    const int64_t now = now_ns();
    const bool echo = flight->exchange->params.protocol == ICMP;
    const unsigned char *payload = echo ? echo_read(flight->probe, text, &size) : text;
    uint64_t number;
    if (!payload || !probe_header_read(flight->thread, payload, size, &number) ||
        number < flight->oldest || number >= flight->sent || *sent_at(flight, number) == 0)
        return;
    const struct moments one = {
        .due_ns = due_at(flight, number),
        .sent_ns = *sent_at(flight, number),
        .over_ns = now,
    };
    schedule_record(flight->requester, flight->schedule, &one, false);
    *sent_at(flight, number) = 0;
    flight->next_ns = now + flight->schedule->gap_ns;
}

/* Advances `oldest` past answered requests, and past those that are lost. */
static void settle(struct requests_in_flight *flight)
{
    const int64_t now = now_ns();
    for (; flight->oldest < flight->sent; flight->oldest++) {
        const int64_t at = *sent_at(flight, flight->oldest);
        const bool full = flight->sent - flight->oldest == MAX_UNANSWERED;
        if (at && now - at < flight->threshold_ns && !full)
            return;
        if (!at)
            continue;
        schedule_record_lost(flight->requester, flight->schedule, due_at(flight, flight->oldest));
        flight->next_ns = now + flight->schedule->gap_ns;
    }
}

/* Waits for an answer until then, when the next request may be due. */
static bool await_answer(struct requests_in_flight *flight, int64_t until_ns)
{
    struct flow_thread *thread = flight->thread;
    const bool closed = flight->schedule->period_ns == 0;
    if (!closed) {
        struct pollfd fds[] = {{.fd = flight->probe->fd, .events = POLLIN},
                               {.fd = thread->fd, .events = POLLIN}};
        const int64_t left = until_ns - SPIN_NS - now_ns();
        const struct timespec timeout = {left / NS_PER_S, left % NS_PER_S};
        if (left > 0 && ppoll(fds, 2, &timeout, NULL) > 0 && fds[1].revents)
            return !thread_is_cancelled(thread) && probe_check_flow(thread) >= 0 &&
                   thread_broken(thread, ECONNRESET);
    }
    const ssize_t n = recv(flight->probe->fd, text, sizeof text, closed ? 0 : MSG_DONTWAIT);
    if (n >= 0)
        record_answer(flight, n);
    else if (closed && !thread_is_cancelled(thread) && probe_check_flow(thread) != 0)
        return thread_broken(thread, ECONNRESET);
    return !thread_is_cancelled(thread);
}

/* The next deadline. */
static int64_t next_moment(const struct requests_in_flight *flight, int64_t due_ns)
{
    const int64_t lost_ns = flight->oldest < flight->sent
                                ? *sent_at(flight, flight->oldest) + flight->threshold_ns
                                : FOREVER;
    return due_ns < lost_ns ? due_ns : lost_ns;
}

static bool send_requests(struct requests_in_flight *flight)
{
    const struct schedule *schedule = flight->schedule;
    for (;;) {
        settle(flight);
        const bool waits = flight->oldest < flight->sent;
        int64_t due = schedule->period_ns > 0 ? schedule_due(schedule, flight->sent)
                      : waits                 ? FOREVER
                                              : flight->next_ns;
        const int64_t now = now_ns();
        if (now >= schedule->end_ns || (due >= schedule->end_ns && due != FOREVER)) {
            if (!waits)
                break;
            due = FOREVER;
        }
        bool ok;
        if (now >= due)
            ok = send_next(flight);
        else if (waits || schedule->period_ns > 0)
            ok = await_answer(flight, next_moment(flight, due));
        else
            ok = thread_wait_until(flight->thread, due);
        if (!ok)
            return false;
    }
    if (schedule->period_ns > 0)
        flight->requester->unsent = schedule_unsent(schedule, flight->sent);
    return true;
}

bool probe_request_datagrams(struct flow_thread *thread, struct exchange *exchange,
                             const struct schedule *schedule)
{
    struct requests_in_flight flight = {
        .thread = thread,
        .exchange = exchange,
        .requester = &exchange->requesters[thread->index],
        .probe = &exchange->probes[thread->index],
        .schedule = schedule,
        .threshold_ns = seconds_ns(exchange->params.loss_threshold_s),
    };
    memset(text, 0, sizeof text);
    return send_requests(&flight) && thread_wait_until(thread, schedule->end_ns);
}

bool probe_answer_datagrams(struct flow_thread *thread, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    const int fd = exchange->probes[thread->index].fd;
    struct sockaddr_storage from;
    uint64_t number;
    if (params->protocol == ICMP) /* the kernel answers */
        return thread_receive_some(thread, text, 1) == 0;
    for (;;) {
        socklen_t length = sizeof from;
        const ssize_t n = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length);
        if (thread_is_cancelled(thread))
            return false;
        if (probe_header_read(thread, text, n, &number)) {
            thread_moved(thread);
            exchange->answers[thread->index] +=
                sendto(fd, text, (size_t)params->response_size, MSG_NOSIGNAL,
                       (struct sockaddr *)&from, length) >= 0;
            continue;
        }
        exchange->refused += n >= 0;
        const int checked = probe_check_flow(thread);
        if (checked != 0)
            return checked > 0;
    }
}
