#include "receive.h"

#include "flow.h"
#include "payload.h"

#include <errno.h>
#include <sys/socket.h>

ssize_t receive_some(struct flow *flow, int flags)
{
    const ssize_t n = payload_receive(flow, flags);
    if (n > 0) {
        const uint64_t before = atomic_load_explicit(&flow->bytes, memory_order_relaxed);
        atomic_store_explicit(&flow->bytes, before + (uint64_t)n, memory_order_relaxed);
        if (before == 0)
            flow_begun(flow);
    }
    return n;
}

void receive_ended(struct flow *flow, ssize_t how)
{
    const int problem = is_cancelled(flow->way->bulk) ? ECANCELED
                        : how < 0                     ? errno
                        : flow->bytes == 0            ? ECONNRESET
                                                      : 0;
    if (!problem) {
        /* Tells the sender that everything has been read. */
        linger_reset(flow->fd, false);
        shutdown(flow->fd, SHUT_WR);
    }
    flow_ended(flow, problem);
}

void receive_flow(struct worker *worker, struct flow *flow)
{
    ssize_t n = 0;
    /* A shutdown() ends a wait, but while there is something to read none is needed. */
    while (!is_cancelled(flow->way->bulk) &&
           ((n = receive_some(flow, 0)) > 0 || (n < 0 && errno == EINTR)))
        if (worker_must_split(worker))
            worker_split(worker);
    receive_ended(flow, n);
}
