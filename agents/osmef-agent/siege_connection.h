/* One connection of a siege, and the thread that it belongs to. */
#ifndef OSMEF_SIEGE_CONNECTION_H
#define OSMEF_SIEGE_CONNECTION_H

#include "siege.h"

#define PING_ANSWER 1024 /* ping's JSON is shorter */
#define WORKER_BUFFER (128 * 1024)

struct siege_connection {
    struct source source;
    int64_t asked;  /* the record of the request in hand; -1: none */
    int64_t due_ns; /* its deadline */
    bool established;
    bool reused; /* the connection has brought an answer before */
    bool received; /* it has brought something for this request */
    bool has_head;
    bool readable;
    bool ends; /* behind what can be read, the server has closed */
    int request_size;
    int request_sent;
    struct http_response response;
    struct http_body body;
    int64_t length; /* of the body so far */
    int answer_size;
    int carried; /* bytes of a head whose end has not come */
    char answer[PING_ANSWER + 1];
    char request[SIEGE_TEXT + 16];
    char carry[HTTP_HEAD_SIZE];
};

/* A thread with its connections. */
struct siege_worker {
    struct loop loop;
    struct siege_connection *connections;
    int count;
    int idle[SIEGE_CONNECTIONS];
    int idle_count;
    int64_t check_ns; /* the earliest deadline of a request in hand, or before */
    struct siege_counts counts;
    char buffer[WORKER_BUFFER];
};

/* Opens a connection and does not wait for it. Returns false with errno set. */
bool connection_open(struct siege_connection *connection);

/* Sends the request of a record; it may end at once, with an error. */
void connection_ask(struct siege_worker *worker, struct siege_connection *connection,
                    int64_t asked);

/* The deadline of the request in hand has passed. */
void connection_late(struct siege_worker *worker, struct siege_connection *connection);

/* Told by epoll. When requests end, their connections are in `idle` again. */
void connection_ready(struct siege_worker *worker, struct siege_connection *connection,
                      uint32_t events);

#endif
