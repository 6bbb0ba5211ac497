/* Relays between ping's clients and pong. */
#ifndef OSMEF_RELAY_H
#define OSMEF_RELAY_H

#include "resolve.h"
#include "server.h"

#define RELAY_BUFFER (32 * 1024)
#define RELAY_IDLE 256 /* connections that a thread keeps for later clients */

/* One for each client, indexed by the client's descriptor. */
struct relay {
    struct source source;  /* the connection to pong; it is kept between requests */
    struct client *client; /* NULL: not in use */
    bool measured;         /* /mping: the answer reports the duration, without the body */
    bool busy;             /* a request is in progress */
    bool pausing;          /* ... and waits for its next attempt */
    bool reused;           /* the connection was used before */
    bool received;         /* ... and has received something in this attempt */
    bool readable;
    bool ends; /* pong has closed after the data that can be read */
    bool has_head;
    bool answered; /* a part of the answer was sent to the client: no more retries */
    bool excess;   /* pong has sent more than its answer */
    int retries;
    int64_t arrival_ns;
    int64_t length; /* of the body so far */
    int request_size;
    int request_sent;
    char request[384];
    struct http_response response;
    struct http_body body;
    int used; /* bytes in the buffer, to be sent to the client after the head */
    int sent; /* how many of these have been sent */
    char buffer[RELAY_BUFFER];
};

/* Shared by all relays. */
struct relaying {
    struct relay *relays;
    struct address_list pong;       /* a name may have several addresses */
    atomic_uint address;            /* index of the current one, modulo their number */
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

/* Connects a relay to pong, by a kept connection or a new one. Returns false with errno set. */
bool relay_connect(struct loop *loop, struct relay *r);

/* Keeps the connection for another client. */
void relay_keep(struct loop *loop, struct relay *r);

/* Records events of epoll. */
void relay_set_events(struct relay *r, uint32_t events);

/* Reads a buffer from pong and forwards or counts it. */
enum relay_progress relay_step(struct loop *loop, struct relay *r);

void relay_ready(struct loop *loop, struct source *source, uint32_t events);

extern const struct service ping_service;

#endif
