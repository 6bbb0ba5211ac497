/* The threads of an exchange. */
#include "clock.h"
#include "exchange.h"
#include "probe.h"

static bool request_serially(struct flow_thread *thread, struct exchange *exchange,
                             struct requester *requester, const struct schedule *schedule)
{
    const struct exchange_params *params = &exchange->params;
    const bool connects = params->protocol == TCP_CONNECT;
    int64_t now = now_ns();
    int64_t due = now;
    uint64_t sent = 0;
    for (;; sent++) {
        if (schedule->period_ns > 0)
            due = schedule_due(schedule, sent);
        if (due >= schedule->end_ns || now >= schedule->end_ns || thread_is_cancelled(thread))
            break;
        if (connects && !probe_connection(thread, exchange))
            return false;
        const bool late = sent > 0 && schedule->period_ns > 0 && now > due;
        if (due > now && !thread_wait_until(thread, due))
            return false;
        /* The time between two requests is not measured. */
        struct moments one = {.due_ns = due, .sent_ns = now_ns()};
        if (schedule->period_ns == 0)
            one.due_ns = one.sent_ns;
        if (connects && !probe_connect(thread, exchange))
            return false;
        if (connects)
            probe_header_write(thread, sent, exchange_request);
        if (!exchange_send(thread, params->request_size) ||
            !exchange_receive(thread, params->response_size))
            return false;
        now = one.over_ns = now_ns();
        schedule_record(requester, schedule, &one, late);
        due = now + schedule->gap_ns;
        probe_disconnect(thread);
    }
    if (schedule->period_ns > 0)
        requester->unsent = schedule_unsent(schedule, sent);
    /* The next request may have been due long after the end. */
    return thread_wait_until(thread, schedule->end_ns);
}

static bool send_flow_requests(struct flow_thread *thread, struct exchange *exchange)
{
    const enum protocol protocol = exchange->params.protocol;
    struct requester *requester = &exchange->requesters[thread->index];
    if (!thread_wait_gate(thread, GATE_OPEN))
        return false;
    if (protocol != TCP && !probe_begin(thread))
        return false;
    const struct schedule schedule = schedule_make(thread, &exchange->params);
    const bool ok = protocol_is_datagrams(protocol)
                        ? probe_request_datagrams(thread, exchange, &schedule)
                        : request_serially(thread, exchange, requester, &schedule);
    probe_disconnect(thread);
    return ok && thread_end(thread);
}

/* Answers requests on the flow's own connection. Returns true at its end. */
static bool answer_serially(struct flow_thread *thread, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    _Atomic uint64_t *const count = &exchange->answers[thread->index];
    uint64_t answered = 0;
    const size_t piece =
        params->request_size < EXCHANGE_PIECE ? (size_t)params->request_size : EXCHANGE_PIECE;
    ssize_t n;
    /* Only here the peer may end the flow. */
    while ((n = thread_receive_some(thread, exchange_scratch, piece)) > 0) {
        if (!exchange_receive(thread, params->request_size - (uint64_t)n) ||
            !exchange_send(thread, params->response_size))
            return false;
        atomic_store_explicit(count, ++answered, memory_order_relaxed);
    }
    return n == 0;
}

static bool answer_probes(struct flow_thread *thread, struct exchange *exchange)
{
    return probe_begin(thread) &&
           (exchange->params.protocol == TCP_CONNECT ? probe_answer_connections(thread, exchange)
                                                     : probe_answer_datagrams(thread, exchange));
}

static bool answer(struct flow_thread *thread, struct exchange *exchange)
{
    const struct exchange_params *params = &exchange->params;
    const double least_s = params->warmup_s + params->duration_s - EARLY_SLACK_S;
    const bool beside = params->protocol != TCP;
    const bool ok = beside ? answer_probes(thread, exchange) : answer_serially(thread, exchange);
    if (!ok || thread_is_cancelled(thread)) /* its shutdown() is like the end of the peer */
        return false;
    const double lasted_s = ns_seconds(now_ns() - thread->threads->start_ns);
    if ((!beside && exchange->answers[thread->index] == 0) || lasted_s < least_s)
        return thread_fail(thread, "reset", "the peer ended the flow after %.2f s, not %g s",
                           lasted_s, params->warmup_s + params->duration_s);
    return thread_end_too(thread);
}

bool exchange_work(struct flow_thread *thread)
{
    struct exchange *exchange = (struct exchange *)thread->threads; /* its first member */
    return thread->threads->params->listens ? answer(thread, exchange)
                                            : send_flow_requests(thread, exchange);
}
