#include "pool.h"

#include "clock.h"
#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
/* How often threads check whether the transfer was cancelled, and senders their deadline. */
#define CHECK_MS 20

static int polls[ROLES][MAX_FLOWS]; /* of each worker */
static int opened[ROLES];           /* number of these */

static bool watch(int poll, struct flow *flow)
{
    struct epoll_event event = {.events = flow->way->role == SENDER ? EPOLLOUT : EPOLLIN,
                                .data.ptr = flow};
    return epoll_ctl(poll, EPOLL_CTL_ADD, flow->fd, &event) == 0;
}

bool pool_prepare(struct way *way)
{
    int *poll = polls[way->role];
    bool ok = true;
    for (int i = 0; ok && i < way->threads; i++) {
        poll[i] = epoll_create1(EPOLL_CLOEXEC);
        ok = poll[i] >= 0;
        opened[way->role] += ok;
    }
    for (int i = 0; ok && i < way->count; i++) {
        struct flow *flow = &way->flows[i];
        ok = fcntl(flow->fd, F_SETFL, fcntl(flow->fd, F_GETFL) | O_NONBLOCK) == 0 &&
             watch(poll[i % way->threads], flow);
    }
    return ok || job_fail(way->bulk->threads.job, "resource", -1,
                          "can't wait for the flows: %s; try fewer connections", strerror(errno));
}

void pool_close(void)
{
    for (int role = 0; role < ROLES; role++)
        while (opened[role] > 0)
            close(polls[role][--opened[role]]);
}

static int flows_of(const struct worker *worker)
{
    const struct way *way = worker->way;
    return (way->count - worker->index + way->threads - 1) / way->threads;
}

/* One failed flow ends the thread. */
static bool is_running(const struct worker *worker)
{
    return !worker->thread->failure.kind && !thread_is_cancelled(worker->thread);
}

static bool end_flow(int poll, const struct worker *worker, struct flow *flow, int problem)
{
    epoll_ctl(poll, EPOLL_CTL_DEL, flow->fd, NULL);
    flow_ended(worker->thread, flow, problem);
    return true;
}

/* Ends the sending, and waits for the receiver's answer. Returns true when the flow has ended. */
static bool finish(int poll, const struct worker *worker, struct flow *flow)
{
    struct epoll_event answer = {.events = EPOLLIN, .data.ptr = flow};
    const int problem = send_shutdown(flow);
    if (problem)
        return end_flow(poll, worker, flow, problem);
    epoll_ctl(poll, EPOLL_CTL_MOD, flow->fd, &answer);
    return false;
}

/* Serves a flow that is ready. Returns true when it has ended. */
static bool advance(int poll, const struct worker *worker, struct flow *flow, struct turn turn)
{
    if (flow->finished) {
        const int problem = send_confirm(flow);
        return problem != EAGAIN && end_flow(poll, worker, flow, problem);
    }
    if (send_is_complete(flow))
        return finish(poll, worker, flow);
    const int problem = turn.todo == SEND ? send_some(flow, turn.burst) : 0;
    return problem && end_flow(poll, worker, flow, problem);
}

/* At the deadline, also for flows that are not ready to send. Returns how many have ended. */
static int finish_all(int poll, const struct worker *worker)
{
    struct way *way = worker->way;
    int ended = 0;
    for (int i = worker->index; i < way->count; i += way->threads)
        if (!way->flows[i].finished && !way->flows[i].has_ended)
            ended += finish(poll, worker, &way->flows[i]);
    return ended;
}

void pool_send(struct worker *worker)
{
    struct bulk *bulk = worker->way->bulk;
    struct epoll_event events[EVENTS];
    const int poll = polls[SENDER][worker->index];
    bool sending = true;
    for (int left = flows_of(worker); left > 0 && is_running(worker);) {
        const struct turn turn = send_turn(bulk, now_ns());
        if (sending && turn.todo == FINISH) {
            left -= finish_all(poll, worker);
            sending = false;
        }
        if (turn.todo == REST)
            threads_pause(worker->thread->threads, turn.until_ns);
        const int count = epoll_wait(poll, events, EVENTS, CHECK_MS);
        for (int i = 0; i < count; i++)
            left -= advance(poll, worker, events[i].data.ptr, turn);
        if (worker_must_split(worker))
            worker_split(worker);
    }
}

void pool_receive(struct worker *worker)
{
    struct epoll_event events[EVENTS];
    const int poll = polls[worker->way->role][worker->index];
    for (int left = flows_of(worker); left > 0 && is_running(worker);) {
        const int count = epoll_wait(poll, events, EVENTS, CHECK_MS);
        for (int i = 0; i < count; i++) {
            struct flow *flow = events[i].data.ptr;
            const ssize_t n = receive_some(flow, 0);
            if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
                continue;
            const int why = errno;
            epoll_ctl(poll, EPOLL_CTL_DEL, flow->fd, NULL);
            errno = why;
            receive_ended(worker->thread, flow, n);
            left--;
        }
        if (worker_must_split(worker))
            worker_split(worker);
    }
}
