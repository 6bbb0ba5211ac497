#include "relay.h"

#include "clock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

struct relaying relaying;

static bool connect_new(struct loop *loop, struct relay *r)
{
    const int on = 1;
    const struct socket_address *pong =
        &relaying.pong.at[relaying.address % (unsigned)relaying.pong.count];
    r->source.fd =
        socket(pong->sockaddr.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->source.fd < 0)
        return false;
    r->readable = r->ends = false;
    setsockopt(r->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(r->source.fd, &pong->sockaddr.any, pong->size) != 0 && errno != EINPROGRESS)
        return false;
    return loop_watch(loop, &r->source);
}

bool relay_connect(struct loop *loop, struct relay *r)
{
    int *count = &relaying.idle[loop->index].count;
    while (*count > 0) {
        r->source.fd = relaying.idle[loop->index].fds[--*count];
        r->reused = true;
        if (loop_watch(loop, &r->source))
            return true;
        close(r->source.fd);
    }
    r->reused = false;
    return connect_new(loop, r);
}

void relay_keep(struct loop *loop, struct relay *r)
{
    int *count = &relaying.idle[loop->index].count;
    if (*count == RELAY_IDLE)
        loop_drop(loop, &r->source);
    else
        relaying.idle[loop->index].fds[(*count)++] = loop_unwatch(loop, &r->source);
}

void relay_set_events(struct relay *r, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        r->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        r->ends = true;
}

/* Reads the body from `at` on. Returns how many bytes belong to it, or HTTP_BAD. */
static int take_body(struct relay *r, int at)
{
    const int begin = at;
    struct http_text piece;
    while (at < r->used && r->body.state != HTTP_BODY_DONE) {
        const int got = http_take_body(&r->body, r->buffer + at, (size_t)(r->used - at), &piece);
        if (got < 0)
            return HTTP_BAD;
        at += got;
        r->length += (int64_t)piece.size;
    }
    r->excess = at < r->used;
    return at - begin;
}

/* Reads the head, and sends the client one with the same framing of the body. */
static enum relay_progress take_head(struct relay *r, int *body_at)
{
    int got;
    while ((got = http_read_response(r->buffer, (size_t)r->used, &r->response)) > 0 &&
           r->response.status < 200) {
        r->used -= got;
        memmove(r->buffer, r->buffer + got, (size_t)r->used);
    }
    if (got == HTTP_MORE)
        return r->used < RELAY_BUFFER ? RELAY_MORE : RELAY_BROKEN;
    const bool to_head = r->client->to_head && !r->measured;
    const bool old_client = r->client->minor == 0 && !r->measured;
    if (got < 0 || (r->response.framing.chunked && old_client))
        return RELAY_BROKEN;
    r->has_head = true;
    r->body = http_response_body(&r->response, to_head);
    *body_at = got;
    if (r->measured)
        return RELAY_DONE;
    r->client->closing |= r->body.state == HTTP_BODY_TO_THE_END;
    client_relay_head(r->client, r->response.status, &r->response.framing);
    r->answered = true;
    return RELAY_DONE;
}

/* Handles received data. */
static enum relay_progress take(struct relay *r)
{
    int body_at = 0;
    if (!r->has_head) {
        const enum relay_progress progress = take_head(r, &body_at);
        if (progress != RELAY_DONE)
            return progress;
    }
    const int size = take_body(r, body_at);
    if (size < 0)
        return RELAY_BROKEN;
    r->sent = body_at;
    r->used = body_at + size;
    if (r->measured)
        r->sent = r->used = 0;
    return RELAY_MORE;
}

/* Sends the client the head and a part of the body. */
static enum relay_progress push(struct loop *loop, struct relay *r)
{
    struct client *client = r->client;
    while (client->sent < client->text_size || r->sent < r->used) {
        const size_t head = (size_t)(client->text_size - client->sent);
        struct iovec vectors[2] = {{client->text + client->sent, head},
                                   {r->buffer + r->sent, (size_t)(r->used - r->sent)}};
        const ssize_t n = writev(client->source.fd, vectors, 2);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? RELAY_WAIT : RELAY_CLIENT_GONE;
        server_count(&server_counts_of(loop)->bytes, (uint64_t)n);
        client_due(loop, client, loop->now_ns + relaying.timeout_ns);
        const size_t of_head = (size_t)n < head ? (size_t)n : head;
        client->sent += (int64_t)of_head;
        r->sent += (int)((size_t)n - of_head);
    }
    r->used = r->sent = 0;
    return RELAY_MORE;
}

enum relay_progress relay_step(struct loop *loop, struct relay *r)
{
    if (r->answered) {
        const enum relay_progress progress = push(loop, r);
        if (progress != RELAY_MORE)
            return progress;
    }
    if (r->has_head && r->body.state == HTTP_BODY_DONE)
        return RELAY_DONE;
    if (!r->readable)
        return RELAY_WAIT;
    const size_t space = (size_t)(RELAY_BUFFER - r->used);
    const ssize_t n = recv(r->source.fd, r->buffer + r->used, space, 0);
    if (n < 0 && errno == EINTR)
        return RELAY_MORE;
    if (n < 0 && errno == EAGAIN) {
        r->readable = false;
        return RELAY_WAIT;
    }
    if (n <= 0)
        return n == 0 && r->has_head && r->body.state == HTTP_BODY_TO_THE_END ? RELAY_DONE
                                                                              : RELAY_BROKEN;
    r->received = true;
    r->readable = r->ends || (size_t)n == space;
    r->used += (int)n;
    r->client->due_ns = loop->now_ns + relaying.timeout_ns;
    return take(r);
}
