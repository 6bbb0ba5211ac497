/* Sends a request to pong for each request of a client, and either forwards the answer (/ping/n) or
 * reports its duration (/mping/n). Each client has a connection to pong of its own while it is
 * connected; then it is kept for another client. */
#include "relay.h"

#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>

static struct relay *relay_of(const struct client *client)
{
    return &relaying.relays[client->source.fd];
}

static void answer_metered(struct client *client, int code, const struct relay *r)
{
    char json[160];
    snprintf(json, sizeof json,
             "{\"length\": %lld, \"code\": %d, \"retries\": %d, \"duration\": %.6f}",
             (long long)r->length, code, r->retries, (double)(now_ns() - r->arrival_ns) / 1e6);
    client_answer(client, code == 503 ? "503 Service Unavailable" : "200 OK", "application/json",
                  json, 0);
}

/* The exchange was successful: its connection is kept if it persists. */
static void complete(struct loop *loop, struct relay *r)
{
    r->busy = false;
    if (!http_persists(&r->response.framing) || r->body.state == HTTP_BODY_TO_THE_END ||
        r->excess || r->ends)
        loop_drop(loop, &r->source);
    if (r->measured)
        answer_metered(r->client, r->response.status, r);
    client_resume(loop, r->client);
}

static void give_up(struct loop *loop, struct relay *r)
{
    r->busy = false;
    loop_drop(loop, &r->source);
    if (r->answered) {
        client_drop(loop, r->client, true);
        return;
    }
    r->length = 0;
    if (r->measured)
        answer_metered(r->client, 503, r);
    else
        client_answer(r->client, "503 Service Unavailable", "text/plain", "pong can't be reached\n",
                      0);
    client_resume(loop, r->client);
}

/* An attempt has failed: the next one follows after 1, 2, 4, ... 256 ms. If pong has closed a kept
 * connection, the next one follows at once. */
static void retry(struct loop *loop, struct relay *r)
{
    const bool stale = r->reused && !r->received;
    loop_drop(loop, &r->source);
    if (r->answered || (!stale && (r->retries >= relaying.retries ||
                                   now_ns() >= r->arrival_ns + relaying.timeout_ns))) {
        give_up(loop, r);
        return;
    }
    int64_t pause_ns = 0;
    if (!stale)
        pause_ns = 1000000LL << (r->retries < 8 ? r->retries : 8);
    if (!r->received && !r->reused)
        relaying.address++; /* try another address of pong */
    r->retries += !stale;
    r->pausing = true;
    client_due(loop, r->client, now_ns() + pause_ns);
}

static void push_request(struct loop *loop, struct relay *r)
{
    const size_t left = (size_t)(r->request_size - r->request_sent);
    const ssize_t n = send(r->source.fd, r->request + r->request_sent, left, MSG_NOSIGNAL);
    if (n > 0)
        r->request_sent += (int)n;
    else if (errno != EAGAIN && errno != EINTR)
        retry(loop, r);
}

static void attempt(struct loop *loop, struct relay *r)
{
    r->pausing = r->received = r->has_head = r->excess = false;
    r->request_sent = 0;
    r->used = r->sent = 0;
    r->length = 0;
    client_due(loop, r->client, loop->now_ns + relaying.timeout_ns);
    r->reused = r->source.fd >= 0;
    if (r->reused || relay_connect(loop, r))
        push_request(loop, r);
    else
        retry(loop, r);
}

static void begin(struct loop *loop, struct client *client, int64_t length, bool measured)
{
    struct relay *r = relay_of(client);
    r->source.ready = relay_ready;
    if (!r->client)
        r->source.fd = -1;
    r->client = client;
    r->arrival_ns = now_ns();
    r->measured = measured;
    r->busy = true;
    r->answered = false;
    r->retries = 0;
    client->waiting = true;
    r->request_size =
        snprintf(r->request, sizeof r->request, "%s /pong/%lld HTTP/1.%d\r\nHost: %s\r\n%s\r\n",
                 client->to_head && !measured ? "HEAD" : "GET", (long long)length,
                 measured || client->minor ? 1 : 0, relaying.authority,
                 measured || client->minor ? "" : "Connection: keep-alive\r\n");
    attempt(loop, r);
}

static void begin_plain(struct loop *loop, struct client *client, int64_t length)
{
    begin(loop, client, length, false);
}

static void begin_metered(struct loop *loop, struct client *client, int64_t length)
{
    begin(loop, client, length, true);
}

/* Forwards from pong to the client as far as possible without waiting. */
static void pump(struct loop *loop, struct relay *r)
{
    enum relay_progress progress = RELAY_MORE;
    while (progress == RELAY_MORE)
        progress = relay_step(loop, r);
    if (progress == RELAY_DONE)
        complete(loop, r);
    else if (progress == RELAY_BROKEN)
        retry(loop, r);
    else if (progress == RELAY_CLIENT_GONE)
        client_drop(loop, r->client, true);
}

void relay_ready(struct loop *loop, struct source *source, uint32_t events)
{
    struct relay *r = (struct relay *)source;
    relay_set_events(r, events);
    if (!r->busy) {
        if (r->readable) /* unexpected data, or the end: pong is closing it */
            loop_drop(loop, source);
        return;
    }
    if (r->pausing)
        return;
    if (r->request_sent < r->request_size)
        push_request(loop, r);
    if (source->fd >= 0 && r->busy && !r->pausing)
        pump(loop, r);
}

static void writable(struct loop *loop, struct client *client)
{
    struct relay *r = relay_of(client);
    if (r->busy && !r->pausing && r->source.fd >= 0)
        pump(loop, r);
}

static void late(struct loop *loop, struct client *client)
{
    struct relay *r = relay_of(client);
    if (r->pausing)
        attempt(loop, r);
    else
        give_up(loop, r);
}

static void gone(struct loop *loop, struct client *client)
{
    struct relay *r = relay_of(client);
    if (!r->client)
        return;
    if (r->busy || r->source.fd < 0)
        loop_drop(loop, &r->source);
    else
        relay_keep(loop, r);
    r->busy = false;
    r->client = NULL;
}

const struct service ping_service = {
    .routes = {{"/ping/", begin_plain}, {"/mping/", begin_metered}},
    .writable = writable,
    .late = late,
    .gone = gone,
};
