/* Requests in datagrams of UDP or ICMP: one that has no answer is lost. */
#include "clock.h"
#include "echo.h"
#include "probe.h"
#include "schedule.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* As in hand_wait_until(): waking takes a while. */
#define SPIN_NS 60000
#define LARGEST (PROBE_MOST_BYTES + 128)

static _Thread_local unsigned char text[LARGEST];

/* One flow's datagrams. Those from `oldest` on, up to `sent`, may still be answered. */
struct salvo {
    struct hand *hand;
    struct exchange *exchange;
    struct asker *asker;
    const struct probe *probe;
    const struct schedule *schedule;
    int64_t threshold_ns;
    uint64_t sent;
    uint64_t oldest;
    int64_t next_ns; /* without a period: when the next one is due */
};

static int64_t *sent_at(const struct salvo *salvo, uint64_t number)
{
    return &salvo->asker->sent_ns[number % MOST_UNANSWERED];
}

/* From when a request counts: when it was due, or when it was sent. */
static int64_t counts_from(const struct salvo *salvo, uint64_t number)
{
    return salvo->schedule->period_ns > 0 ? schedule_due(salvo->schedule, number)
                                          : *sent_at(salvo, number);
}

/* What the system does not take is as lost as what the network drops, unless it never can. */
static bool send_next(struct salvo *salvo)
{
    const struct exchange_params *params = &salvo->exchange->params;
    const bool echo = params->protocol == ICMP;
    size_t size = (size_t)params->request_size;
    probe_header_write(salvo->hand, salvo->sent, text + (echo ? ECHO_HEADER_SIZE : 0));
    if (echo)
        size = echo_write(salvo->probe, salvo->sent, text, size);
    *sent_at(salvo, salvo->sent++) = now_ns();
    hand_moved(salvo->hand);
    if (send(salvo->probe->fd, text, size, MSG_NOSIGNAL) < 0 && errno == EMSGSIZE)
        return hand_fail(salvo->hand, "option", "a datagram of %zu bytes is too large here: %s",
                         size, strerror(errno));
    return true;
}

/* Notes an answer, unless it is a copy, comes too late, or is of somebody else. */
static void note_answer(struct salvo *salvo, ssize_t size)
{
    const int64_t now = now_ns();
    const bool echo = salvo->exchange->params.protocol == ICMP;
    const unsigned char *payload = echo ? echo_read(salvo->probe, text, &size) : text;
    uint64_t number;
    if (!payload || !probe_header_read(salvo->hand, payload, size, &number) ||
        number < salvo->oldest || number >= salvo->sent || *sent_at(salvo, number) == 0)
        return;
    schedule_note(salvo->asker, salvo->schedule, counts_from(salvo, number), now, false);
    *sent_at(salvo, number) = 0;
    salvo->next_ns = now + salvo->schedule->gap_ns;
}

/* Passes over what has been answered, and gives up what has waited for too long. */
static void settle(struct salvo *salvo)
{
    const int64_t now = now_ns();
    for (; salvo->oldest < salvo->sent; salvo->oldest++) {
        const int64_t at = *sent_at(salvo, salvo->oldest);
        const bool crowded = salvo->sent - salvo->oldest == MOST_UNANSWERED;
        if (at && now - at < salvo->threshold_ns && !crowded)
            return;
        if (!at)
            continue;
        schedule_note_lost(salvo->asker, salvo->schedule, counts_from(salvo, salvo->oldest));
        salvo->next_ns = now + salvo->schedule->gap_ns;
    }
}

/* Waits for an answer until that moment, in which the next request may be due. */
static bool await_answer(struct salvo *salvo, int64_t until_ns)
{
    struct hand *hand = salvo->hand;
    const bool closed = salvo->schedule->period_ns == 0;
    if (!closed) {
        struct pollfd fds[] = {{.fd = salvo->probe->fd, .events = POLLIN},
                               {.fd = hand->fd, .events = POLLIN}};
        const int64_t left = until_ns - SPIN_NS - now_ns();
        const struct timespec timeout = {left / NS_PER_S, left % NS_PER_S};
        if (left > 0 && ppoll(fds, 2, &timeout, NULL) > 0 && fds[1].revents)
            return !hand_is_cancelled(hand) && probe_look(hand) >= 0 &&
                   hand_broken(hand, ECONNRESET);
    }
    const ssize_t n = recv(salvo->probe->fd, text, sizeof text, closed ? 0 : MSG_DONTWAIT);
    if (n >= 0)
        note_answer(salvo, n);
    else if (closed && !hand_is_cancelled(hand) && probe_look(hand) != 0)
        return hand_broken(hand, ECONNRESET);
    return !hand_is_cancelled(hand);
}

/* When something has to be done at the latest. */
static int64_t next_moment(const struct salvo *salvo, int64_t due_ns)
{
    const int64_t lost_ns = salvo->oldest < salvo->sent
                                ? *sent_at(salvo, salvo->oldest) + salvo->threshold_ns
                                : FOREVER;
    return due_ns < lost_ns ? due_ns : lost_ns;
}

static bool fire(struct salvo *salvo)
{
    const struct schedule *schedule = salvo->schedule;
    for (;;) {
        settle(salvo);
        const bool waits = salvo->oldest < salvo->sent;
        int64_t due = schedule->period_ns > 0 ? schedule_due(schedule, salvo->sent)
                      : waits                 ? FOREVER
                                              : salvo->next_ns;
        const int64_t now = now_ns();
        if (now >= schedule->end_ns || (due >= schedule->end_ns && due != FOREVER)) {
            if (!waits)
                break;
            due = FOREVER;
        }
        bool ok;
        if (now >= due)
            ok = send_next(salvo);
        else if (waits || schedule->period_ns > 0)
            ok = await_answer(salvo, next_moment(salvo, due));
        else
            ok = hand_wait_until(salvo->hand, due);
        if (!ok)
            return false;
    }
    if (schedule->period_ns > 0)
        salvo->asker->unsent = schedule_unsent(schedule, salvo->sent);
    return true;
}

bool probe_ask_datagrams(struct hand *hand, struct exchange *exchange,
                         const struct schedule *schedule)
{
    struct salvo salvo = {
        .hand = hand,
        .exchange = exchange,
        .asker = &exchange->askers[hand->index],
        .probe = &exchange->probes[hand->index],
        .schedule = schedule,
        .threshold_ns = seconds_ns(exchange->params.loss_threshold_s),
    };
    memset(text, 0, sizeof text);
    return fire(&salvo) && hand_wait_until(hand, schedule->end_ns);
}

bool probe_answer_datagrams(struct hand *hand, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    const int fd = exchange->probes[hand->index].fd;
    struct sockaddr_storage from;
    uint64_t number;
    if (params->protocol == ICMP) /* the kernel answers */
        return hand_receive_some(hand, text, 1) == 0;
    for (;;) {
        socklen_t length = sizeof from;
        const ssize_t n = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &length);
        if (hand_is_cancelled(hand))
            return false;
        if (probe_header_read(hand, text, n, &number)) {
            hand_moved(hand);
            exchange->answers[hand->index] +=
                sendto(fd, text, (size_t)params->response_size, MSG_NOSIGNAL,
                       (struct sockaddr *)&from, length) >= 0;
            continue;
        }
        exchange->strangers += n >= 0;
        const int looked = probe_look(hand);
        if (looked != 0)
            return looked > 0;
    }
}
