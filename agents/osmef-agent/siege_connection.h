/* One connection of a siege, and the thread that it belongs to. */
#ifndef OSMEF_SIEGE_CONNECTION_H
#define OSMEF_SIEGE_CONNECTION_H

#include "siege.h"

#define PING_ANSWER 1024 /* ping's JSON is shorter */
#define WORKER_BUFFER (128 * 1024)

struct siege_connection {
    struct source source;
    int64_t asked;  /* index of the current request's record; -1: none */
    int64_t due_ns; /* its deadline */
    bool established;
    bool reused;   /* an answer was received before */
    bool received; /* something was received for this request */
    bool has_head;
    bool readable;
    bool ends; /* the server has closed after the data that can be read */
    int request_size;
    int request_sent;
    struct http_response response;
    struct http_body body;
    int64_t length; /* of the body so far */
    int answer_size;
    int carried; /* bytes of an incomplete head */
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
    int64_t check_ns; /* the earliest deadline of a current request, or earlier */
    struct siege_counts counts;
    char buffer[WORKER_BUFFER];
};

/* Opens a connection without waiting for it. Returns false with errno set. */
bool connection_open(struct siege_connection *connection);

/* Sends the request of a record. It may fail at once. */
void connection_ask(struct siege_worker *worker, struct siege_connection *connection,
                    int64_t asked);

/* The deadline of the request in hand has passed. */
void connection_late(struct siege_worker *worker, struct siege_connection *connection);

/* Handles events of epoll. The connections of requests that end are put into `idle`. */
void connection_ready(struct siege_worker *worker, struct siege_connection *connection,
                      uint32_t events);

#endif
