/* One connection of a siege, and the thread that it belongs to. */
#ifndef OSMEF_GUN_H
#define OSMEF_GUN_H

#include "siege.h"

#define GUN_ANSWER 1024       /* ping's JSON is shorter */
#define BARRAGE_BUFFER (128 * 1024)

struct gun {
    struct source source;
    int64_t shot;    /* the record of the request in hand; -1: none */
    int64_t due_ns;  /* its deadline */
    bool established;
    bool reused; /* the connection has brought an answer before */
    bool heard;  /* it has brought something for this request */
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
    char answer[GUN_ANSWER + 1];
    char request[SIEGE_TEXT + 16];
    char carry[HTTP_HEAD_SIZE];
};

/* A thread with its guns. */
struct barrage {
    struct loop loop;
    struct gun *guns;
    int count;
    int idle[SIEGE_CONNECTIONS];
    int idle_count;
    int64_t check_ns; /* the earliest deadline of a request in hand, or before */
    struct siege_counts counts;
    char buffer[BARRAGE_BUFFER];
};

/* Opens a connection and does not wait for it. Returns false with errno set. */
bool gun_connect(struct gun *gun);

/* Sends the request of a record; it may end at once, with an error. */
void gun_fire(struct barrage *barrage, struct gun *gun, int64_t shot);

/* The deadline of the request in hand has passed. */
void gun_late(struct barrage *barrage, struct gun *gun);

/* Told by epoll. When requests end, their guns are in `idle` again. */
void gun_ready(struct barrage *barrage, struct gun *gun, uint32_t events);

#endif
