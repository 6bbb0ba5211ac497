/* The way from ping to pong and back. */
#ifndef OSMEF_RELAY_H
#define OSMEF_RELAY_H

#include "resolve.h"
#include "server.h"

#define RELAY_BUFFER (32 * 1024)
#define RELAY_IDLE 256 /* connections that a thread keeps for clients to come */

/* One for each client, found by the client's descriptor. */
struct relay {
    struct source source;  /* the connection to pong; it stays from request to request */
    struct client *client; /* NULL: nobody uses this one */
    bool measured;         /* how it went is told, instead of the body */
    bool busy;             /* a request is in hand */
    bool pausing;          /* ... and waits for the next attempt */
    bool reused;           /* the connection is not a new one */
    bool received;         /* ... and has brought something for this attempt */
    bool readable;
    bool ends; /* behind what can be read, pong has closed */
    bool has_head;
    bool answered; /* the client has a part of the answer, so there is no way back */
    bool excess;   /* pong has said more than its answer */
    int retries;
    int64_t arrival_ns;
    int64_t length; /* of the body so far */
    int request_size;
    int request_sent;
    char request[384];
    struct http_response response;
    struct http_body body;
    int used; /* bytes from pong in the buffer, for the client as soon as the head is gone */
    int sent; /* of these */
    char buffer[RELAY_BUFFER];
};

/* What all relays share. */
struct relaying {
    struct relay *relays;
    struct address_list pong;       /* a name may have several */
    atomic_uint address;            /* the one in use, modulo their number */
    char authority[AUTHORITY_SIZE]; /* pong's host and port */
    int retries;
    int64_t timeout_ns;
    struct {
        int count;
        int fds[RELAY_IDLE];
    } idle[MAX_LOOPS];
};
extern struct relaying relaying;

enum relay_progress { RELAY_MORE, RELAY_WAIT, RELAY_DONE, RELAY_BROKEN, RELAY_CLIENT_GONE };

/* Brings a relay to pong: a kept connection or a new one. Returns false with errno set. */
bool relay_connect(struct loop *loop, struct relay *r);

/* Keeps the connection for another client. */
void relay_keep(struct loop *loop, struct relay *r);

/* Takes note of what epoll says about it. */
void relay_set_events(struct relay *r, uint32_t events);

/* Moves a buffer full from pong towards the client, or counts it. */
enum relay_progress relay_step(struct loop *loop, struct relay *r);

void relay_ready(struct loop *loop, struct source *source, uint32_t events);

extern const struct service ping_service;

#endif
