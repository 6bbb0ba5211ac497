/* The HTTP server of pong and ping: threads, connections, serial requests, deadlines. The service
 * determines the answers. */
#ifndef OSMEF_SERVER_H
#define OSMEF_SERVER_H

#include "http.h"
#include "loop.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define SERVER_CLIENTS 4096 /* connections at a time; each is one descriptor below this number */
#define SERVER_HEAD_S 5     /* for a request's head, from its first byte on */
#define SERVER_IDLE_S 75    /* for the next request */
#define SERVER_SEND_S 30    /* without progress in sending an answer */

struct client {
    struct source source;
    int64_t due_ns;
    bool readable; /* as far as known */
    bool waiting;  /* the service is handling its request */
    bool serving;  /* serve_client() is running */
    bool closing;  /* the current answer is the last one */
    bool lingers;  /* all has been sent; further input is dropped */
    bool to_head;  /* the request was a HEAD */
    int minor;     /* the client's HTTP/1.minor */
    /* An answer: text, followed by the last `pattern` bytes of pong's body. */
    int64_t pattern;
    int64_t sent;
    int text_size;
    char text[768];
    /* Requests in the buffer. */
    size_t start;
    size_t used;
    char in[HTTP_HEAD_SIZE];
};

struct server;

/* A path of a service: `/pong/n`. */
struct route {
    const char *prefix; /* "/pong/" */
    void (*answer)(struct loop *loop, struct client *client, int64_t length);
};

struct service {
    struct route routes[3]; /* ends with one without a prefix */
    /* For services whose clients wait: the client is writable, or its deadline has passed. */
    void (*writable)(struct loop *loop, struct client *client);
    void (*late)(struct loop *loop, struct client *client);
    /* Optional: a client has disconnected. */
    void (*gone)(struct loop *loop, struct client *client);
};

/* The counters of one thread. */
struct server_counts {
    _Alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t bad; /* answered with 4xx */
    _Atomic uint64_t connections;
    _Atomic uint64_t refused; /* closed at once: too many connections */
    _Atomic uint64_t late;    /* closed after a deadline */
    _Atomic uint64_t bytes;   /* passed to the kernel */
};

/* The longest answer of /pong/n. */
#define PONG_LONGEST ((int64_t)1 << 30)

/* Prepares everything but the address. Returns false with errno set; server_stop() is needed in any
 * case. */
bool server_open(const struct service *service, int threads);

/* Binds and listens. Returns the port, or -1 with errno set. */
int server_listen(const struct sockaddr *address, socklen_t size);

/* Starts the threads. Returns false with errno set. */
bool server_start(void);

/* Ends the threads and closes all connections. */
void server_stop(void);

/* The sum of the counters since server_open(). */
struct server_counts server_total(void);

/* Adds to a counter of the loop itself. */
static inline void server_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}
struct server_counts *server_counts_of(const struct loop *loop);

/* The number of open connections. */
int server_clients(void);

/* The following functions are for services. */
bool client_alive(const struct client *client);

/* Sets the answer: a head with Content-Length, and either text (which may be NULL) or the
 * pattern. */
void client_answer(struct client *client, const char *status, const char *type, const char *text,
                   int64_t pattern);

/* Begins an answer with this framing, of which the service sends the body after the text. */
void client_relay_head(struct client *client, int status, const struct http_framing *framing);

/* Prepares the file for long answers; without it they are copied. */
void answers_open(void);
void answers_close(void);

/* Sends the rest of the client's answer, and counts the bytes. Long answers are sent from a file
 * when there are many clients. 1: all is sent, 0: later, -1 and errno: the connection is broken. */
int answer_send(struct client *client, int clients, int64_t now, _Atomic uint64_t *bytes);

/* Sends the rest of the answer. 1: all is sent, 0: later, -1: the client was dropped. */
int client_send(struct loop *loop, struct client *client);

/* The service has set the answer: it is sent, and then the next request is read. */
void client_resume(struct loop *loop, struct client *client);

/* Closes the connection; with a reset when its answer is incomplete. */
void client_drop(struct loop *loop, struct client *client, bool reset);

/* Makes `late` be called at this time. */
void client_due(struct loop *loop, struct client *client, int64_t at_ns);

#endif
