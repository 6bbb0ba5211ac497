/* An HTTP server for pong and ping: threads, connections, requests one after the other, deadlines.
 * What a request is answered with is the service's matter. */
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
    bool readable; /* as far as is known */
    bool waiting;  /* the service has its request in hand */
    bool serving;  /* its requests are being answered one after the other */
    bool closing;  /* no more requests: the answer in hand is the last one */
    bool lingers;  /* everything is said; what still comes in is thrown away */
    bool to_head;  /* the request was a HEAD */
    int minor;     /* the client's HTTP/1.minor */
    /* An answer: text, and behind it the last `pattern` bytes of pong's body. */
    int64_t pattern;
    int64_t sent;
    int text_size;
    char text[768];
    /* Requests in hand. */
    size_t start;
    size_t used;
    char in[HTTP_HEAD_SIZE];
};

struct server;

/* A path that is served: `/pong/n`. */
struct route {
    const char *prefix; /* "/pong/" */
    void (*answer)(struct loop *loop, struct client *client, int64_t length);
};

struct service {
    struct route routes[3]; /* up to one without a prefix */
    /* For services that let clients wait: such a one can be written to, or its time is up. */
    void (*writable)(struct loop *loop, struct client *client);
    void (*late)(struct loop *loop, struct client *client);
    /* Optional: a client, waiting or not, is gone. */
    void (*gone)(struct loop *loop, struct client *client);
};

/* What one thread has counted. */
struct server_counts {
    _Alignas(64) _Atomic uint64_t requests;
    _Atomic uint64_t bad; /* answered with 4xx */
    _Atomic uint64_t connections;
    _Atomic uint64_t refused; /* closed at once: there were too many */
    _Atomic uint64_t late;    /* closed, since a deadline had passed */
    _Atomic uint64_t bytes;   /* handed to the kernel */
};

/* The longest answer of /pong/n. */
#define PONG_LONGEST ((int64_t)1 << 30)

/* Prepares everything but the address. Returns false with errno set; in any case server_stop() is
 * needed. */
bool server_open(const struct service *service, int threads);

/* Binds and listens. Returns the port, or -1 with errno set. */
int server_listen(const struct sockaddr *address, socklen_t size);

/* Begins to serve. Returns false with errno set. */
bool server_start(void);

/* Ends the threads and closes all connections. */
void server_stop(void);

/* What was counted since server_open(). */
struct server_counts server_total(void);

/* Adds to a counter of the loop's own. */
static inline void server_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}
struct server_counts *server_counts_of(const struct loop *loop);

/* Connections that are open now. */
int server_clients(void);

/* For services. */
bool client_alive(const struct client *client);

/* Sets the answer: a head with Content-Length, and either text (may be NULL) or the pattern. */
void client_answer(struct client *client, const char *status, const char *type, const char *text,
                   int64_t pattern);

/* Begins an answer whose body the service itself sends behind the text, framed as told. */
void client_relay_head(struct client *client, int status, const struct http_framing *framing);

/* Prepares what long answers are sent from; without it they are copied. */
void answers_open(void);
void answers_close(void);

/* Sends a client what is left of its answer, and counts the bytes. Long ones go another way where
 * there are many clients. 1: all is sent, 0: later, -1 and errno: the connection is broken. */
int answer_send(struct client *client, int clients, int64_t now, _Atomic uint64_t *bytes);

/* Sends the answer, or what is left of it. 1: all is sent, 0: later, -1: the client was dropped. */
int client_send(struct loop *loop, struct client *client);

/* The service is done with the request: the answer is sent, then the next request is read. */
void client_resume(struct loop *loop, struct client *client);

/* Closes the connection; with a reset when its answer is broken off. */
void client_drop(struct loop *loop, struct client *client, bool reset);

/* Has `late` called at that moment. */
void client_due(struct loop *loop, struct client *client, int64_t at_ns);

#endif
