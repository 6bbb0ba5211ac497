#include "server.h"

#include "clock.h"
#include "errors.h"
#include "pages.h"
#include "sockaddr.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

#define BACKLOG 4096
#define SWEEP_NS NS_PER_S
#define NO_LOOP 0

/* There is one server, since there is one job at a time. Clients are indexed by descriptor: open
 * descriptors have different numbers, so a new connection needs no search and no lock. */
static struct {
    const struct service *service;
    struct client *clients;
    _Atomic unsigned char owners[SERVER_CLIENTS]; /* index of its loop + 1, or NO_LOOP */
    struct source listeners[MAX_LOOPS];           /* one descriptor, watched by each loop */
    struct loop loops[MAX_LOOPS];
    struct server_counts counts[MAX_LOOPS];
    int loop_count;
    int listener;
    atomic_uint next; /* index of the loop for the next connection */
    atomic_int open;  /* number of connections */
} server;

struct server_counts *server_counts_of(const struct loop *loop)
{
    return &server.counts[loop->index];
}

int server_clients(void)
{
    return atomic_load_explicit(&server.open, memory_order_relaxed);
}

bool client_alive(const struct client *client)
{
    return client->source.fd >= 0;
}

void client_due(struct loop *loop, struct client *client, int64_t at_ns)
{
    client->due_ns = at_ns;
    loop_due(loop, at_ns);
}

void client_drop(struct loop *loop, struct client *client, bool reset)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    const int fd = client->source.fd;
    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    if (server.service->gone)
        server.service->gone(loop, client);
    atomic_store_explicit(&server.owners[fd], NO_LOOP, memory_order_relaxed);
    atomic_fetch_sub_explicit(&server.open, 1, memory_order_relaxed);
    loop_drop(loop, &client->source);
}

/* The last answer has been sent. Data that the client is still sending must not make the kernel
 * reset the connection before the client has read the answer. */
static void linger(struct loop *loop, struct client *client)
{
    shutdown(client->source.fd, SHUT_WR);
    client->lingers = true;
    client_due(loop, client, loop->now_ns + 2 * NS_PER_S);
}

/* Receives once. Returns whether there is something new. */
static bool receive(struct loop *loop, struct client *client, bool ends)
{
    if (client->start == client->used || client->lingers)
        client->start = client->used = 0;
    if (client->start && client->used == sizeof client->in) {
        client->used -= client->start;
        memmove(client->in, client->in + client->start, client->used);
        client->start = 0;
    }
    const size_t space = sizeof client->in - client->used;
    const ssize_t n = recv(client->source.fd, client->in + client->used, space, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        client->readable = errno == EINTR;
        return errno == EINTR;
    }
    if (n <= 0) {
        client_drop(loop, client, false);
        return false;
    }
    /* The end of the connection follows the last byte, without another event. */
    client->readable = (size_t)n == space || ends;
    if (client->used == 0)
        client->due_ns = loop->now_ns + SERVER_HEAD_S * NS_PER_S;
    client->used += (size_t)n;
    return true;
}

#define NO_HTTP "this is no HTTP/1.1\n"

static void refuse(struct loop *loop, struct client *client, const char *status, const char *why)
{
    server_count(&server_counts_of(loop)->bad, 1);
    client_answer(client, status, "text/plain", why, 0);
}

static void route_request(struct loop *loop, struct client *client, struct http_text path)
{
    for (const struct route *route = server.service->routes; route->prefix; route++) {
        const size_t prefix = strlen(route->prefix);
        if (path.size < prefix || memcmp(path.at, route->prefix, prefix) != 0)
            continue;
        const int64_t length = http_number(path, prefix, PONG_LONGEST);
        if (length >= 0)
            route->answer(loop, client, length);
        else if (length == HTTP_MORE)
            refuse(loop, client, "400 Bad Request", "the longest answer has 1073741824 bytes\n");
        else
            break;
        return;
    }
    refuse(loop, client, "404 Not Found", "pong has /pong/N, ping has /ping/N and /mping/N\n");
}

static bool is(struct http_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

/* A request is complete: an answer is set, or the service handles it. */
static void take_request(struct loop *loop, struct client *client,
                         const struct http_request *request)
{
    server_count(&server_counts_of(loop)->requests, 1);
    client->minor = request->framing.minor;
    client->closing = !http_persists(&request->framing);
    client->to_head = is(request->method, "HEAD");
    client->due_ns = loop->now_ns + SERVER_SEND_S * NS_PER_S;
    if (http_request_body(request).state != HTTP_BODY_DONE) {
        /* The body is not read, so the connection is closed after the answer. */
        client->closing = true;
        client->readable = true;
    }
    if (!http_names_host(request)) {
        client->closing = true;
        client->readable = true;
        refuse(loop, client, "400 Bad Request", NO_HTTP);
    } else if (!client->to_head && !is(request->method, "GET"))
        refuse(loop, client, "405 Method Not Allowed", "only GET and HEAD are answered\n");
    else
        route_request(loop, client, http_path(request->target));
}

/* Looks for a complete request in the buffer. Returns whether there is an answer to send. */
static bool find_request(struct loop *loop, struct client *client)
{
    struct http_request request;
    const size_t size = client->used - client->start;
    const int got =
        size ? http_read_request(client->in + client->start, size, &request) : HTTP_MORE;
    if (got == HTTP_MORE && size < sizeof client->in)
        return false;
    if (got > 0) {
        client->start += (size_t)got;
        take_request(loop, client, &request);
        return true;
    }
    client->closing = true;
    client->readable = true;
    client->to_head = false;
    client->minor = 1;
    if (got == HTTP_MORE)
        refuse(loop, client, "431 Request Header Fields Too Large", "at most 8192 bytes\n");
    else
        refuse(loop, client, "400 Bad Request", NO_HTTP);
    return true;
}

int client_send(struct loop *loop, struct client *client)
{
    const int done =
        answer_send(client, server_clients(), loop->now_ns, &server_counts_of(loop)->bytes);
    if (done < 0)
        client_drop(loop, client, false);
    return done;
}

/* Sends the current answer. Returns whether the next request may be handled. */
static bool finish_answer(struct loop *loop, struct client *client)
{
    if (client_send(loop, client) <= 0)
        return false;
    client->text_size = 0;
    client->due_ns = loop->now_ns + SERVER_IDLE_S * NS_PER_S;
    if (!client->closing)
        return true;
    if (client->readable || client->start < client->used)
        linger(loop, client);
    else
        client_drop(loop, client, false);
    return client_alive(client);
}

/* Does all that is possible for a client without waiting. */
static void serve_client(struct loop *loop, struct client *client, bool ends)
{
    bool more = true;
    client->serving = true;
    while (more && client_alive(client) && !client->waiting) {
        if (client->text_size)
            more = finish_answer(loop, client);
        else if (client->lingers || !find_request(loop, client))
            more = client->readable && receive(loop, client, ends);
    }
    client->serving = false;
}

void client_resume(struct loop *loop, struct client *client)
{
    client->waiting = false;
    client->due_ns = loop->now_ns + SERVER_SEND_S * NS_PER_S;
    if (!client->serving) /* else the caller of the service continues, without recursion */
        serve_client(loop, client, false);
}

static void client_ready(struct loop *loop, struct source *source, uint32_t events)
{
    struct client *client = (struct client *)source;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        client->readable = true;
    if (!client->waiting)
        serve_client(loop, client, (events & EPOLLRDHUP) != 0);
    else if (events & (EPOLLHUP | EPOLLERR))
        client_drop(loop, client, false);
    else if (events & EPOLLOUT)
        server.service->writable(loop, client);
}

static void admit(struct loop *acceptor, int fd)
{
    const int yes = 1;
    loop_sync();
    const unsigned turn = atomic_fetch_add_explicit(&server.next, 1, memory_order_relaxed);
    struct loop *loop = &server.loops[turn % (unsigned)server.loop_count];
    struct client *client = fd < SERVER_CLIENTS ? &server.clients[fd] : NULL;
    if (!client) {
        server_count(&server_counts_of(acceptor)->refused, 1);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    memset(client, 0, offsetof(struct client, text));
    client->source = (struct source){client_ready, fd};
    client->start = client->used = 0;
    client->due_ns = now_ns() + SERVER_HEAD_S * NS_PER_S;
    server_count(&server_counts_of(acceptor)->connections, 1);
    atomic_fetch_add_explicit(&server.open, 1, memory_order_relaxed);
    atomic_store_explicit(&server.owners[fd], (unsigned char)(loop->index + 1),
                          memory_order_release);
    if (!loop_watch(loop, &client->source)) {
        atomic_store_explicit(&server.owners[fd], NO_LOOP, memory_order_relaxed);
        atomic_fetch_sub_explicit(&server.open, 1, memory_order_relaxed);
        close(fd);
    }
}

/* Accepts one connection; for further ones epoll wakes other threads. */
static void listener_ready(struct loop *loop, struct source *source, uint32_t events)
{
    (void)events;
    const int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        admit(loop, fd);
    else if (is_resource_error(errno))
        /* sweep() watches it again, so that this thread does not spin. */
        loop_unwatch(loop, source);
}

/* Level-triggered, so that a thread that is woken for one connection misses no other. */
static bool watch_listener(struct loop *loop)
{
    struct source *source = &server.listeners[loop->index];
    *source = (struct source){listener_ready, server.listener};
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = source};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0)
        return true;
    event.events = EPOLLIN; /* before Linux 4.5 */
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0;
}

static void sweep(struct loop *loop)
{
    loop_due(loop, loop->now_ns + SWEEP_NS);
    if (server.listeners[loop->index].fd < 0)
        watch_listener(loop);
    for (int fd = 0; fd < SERVER_CLIENTS; fd++) {
        if (atomic_load_explicit(&server.owners[fd], memory_order_acquire) != loop->index + 1)
            continue;
        struct client *client = &server.clients[fd];
        if (client->due_ns > loop->now_ns) {
            if (client->waiting)
                loop_due(loop, client->due_ns);
        } else if (client->waiting) {
            server.service->late(loop, client);
        } else {
            server_count(&server_counts_of(loop)->late, 1);
            client_drop(loop, client, client->text_size > 0);
        }
    }
}

bool server_open(const struct service *service, int threads)
{
    memset(server.counts, 0, sizeof server.counts);
    atomic_store(&server.open, 0);
    server.service = service;
    server.listener = -1;
    answers_open();
    server.clients = pages_map(SERVER_CLIENTS * sizeof *server.clients, MAP_NORESERVE);
    bool ok = server.clients;
    while (ok && server.loop_count < threads) {
        ok = loop_open(&server.loops[server.loop_count], server.loop_count, sweep);
        server.loop_count += ok;
    }
    return ok;
}

int server_listen(const struct sockaddr *address, socklen_t size)
{
    const int on = 1, off = 0;
    struct sockaddr_storage bound;
    socklen_t bound_size = sizeof bound;
    server.listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server.listener < 0)
        return -1;
    setsockopt(server.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6)
        setsockopt(server.listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(server.listener, address, size) != 0 || listen(server.listener, BACKLOG) != 0 ||
        getsockname(server.listener, (struct sockaddr *)&bound, &bound_size) != 0)
        return -1;
    return ntohs(*port_in(&bound));
}

bool server_start(void)
{
    for (int i = 0; i < server.loop_count; i++) {
        loop_due(&server.loops[i], now_ns() + SWEEP_NS);
        if (!watch_listener(&server.loops[i]) || !loop_start(&server.loops[i]))
            return false;
    }
    return true;
}

void server_stop(void)
{
    for (int i = 0; i < server.loop_count; i++)
        loop_close(&server.loops[i]);
    for (int fd = 0; fd < SERVER_CLIENTS; fd++)
        if (atomic_exchange_explicit(&server.owners[fd], NO_LOOP, memory_order_acquire) != NO_LOOP)
            close(fd);
    if (server.clients)
        munmap(server.clients, SERVER_CLIENTS * sizeof *server.clients);
    answers_close();
    if (server.listener >= 0)
        close(server.listener);
    server.clients = NULL;
    server.listener = -1;
    server.loop_count = 0;
}

struct server_counts server_total(void)
{
    struct server_counts sum = {0};
    for (int i = 0; i < MAX_LOOPS; i++) {
        sum.requests += server.counts[i].requests;
        sum.bad += server.counts[i].bad;
        sum.connections += server.counts[i].connections;
        sum.refused += server.counts[i].refused;
        sum.late += server.counts[i].late;
        sum.bytes += server.counts[i].bytes;
    }
    return sum;
}
