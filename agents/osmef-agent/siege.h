/* siege: sends HTTP requests, closed loop or at a rate, and records every one of them. */
#ifndef OSMEF_SIEGE_H
#define OSMEF_SIEGE_H

#include "cpu.h"
#include "histogram.h"
#include "http.h"
#include "kind.h"
#include "loop.h"
#include "resolve.h"

#define SIEGE_REQUESTS 10000000
#define SIEGE_CONNECTIONS 1000
#define SIEGE_PATH 512
#define SIEGE_TEXT (2 * SIEGE_PATH)
#define SIEGE_MARK "{size}" /* in a path: stands for the size */
#define SIEGE_SIZES (12 * 1024)

struct siege_params {
    char host[HOST_SIZE];
    int port;
    char authority[AUTHORITY_SIZE]; /* what requests call the server; "": its address and port */
    char path[SIEGE_PATH];   /* with SIEGE_MARK or without */
    char sizes[SIEGE_SIZES]; /* a list with commas; else they are drawn: */
    int size_min;
    int size_max;
    double coverage; /* the share of the sizes from min to max that are drawn */
    bool replacement;
    int repetitions; /* requests of each size */
    int seed;
    int connections;
    int threads;
    bool keep_alive;
    double rate_per_s; /* 0: each connection sends as soon as it has its answer */
    double timeout_s;
    double arm_timeout_s;
};

enum request_error {
    REQUEST_OK,
    REQUEST_CONNECT,  /* no connection */
    REQUEST_TIMEOUT,  /* no answer in time */
    REQUEST_CLOSED,   /* the connection ended before the answer did */
    REQUEST_PROTOCOL, /* the answer is no HTTP, or not ping's JSON */
    REQUEST_STATUS,   /* the answer is not 200 */
    REQUEST_ERRORS
};

/* One request, recorded. */
struct siege_request {
    int64_t start_ns;    /* when it was to be sent, since the siege's start */
    int64_t duration_ns; /* from then to the end of the answer */
    int64_t relay_ns;    /* what ping says; UNKNOWN without ping */
    int64_t length;      /* bytes of pong's answer; UNKNOWN: there was none */
    int32_t size;        /* asked for */
    int32_t retries;     /* of ping; UNKNOWN without */
    int16_t code;        /* UNKNOWN: there was none */
    uint8_t error;
};

/* What one thread has counted. */
struct siege_counts {
    struct histogram answered; /* durations of the requests without an error */
    uint64_t bytes;            /* received, heads too */
    uint64_t connections;
};

struct siege {
    struct job *job;
    struct siege_params params;
    bool asks_ping; /* answers are ping's JSON */
    struct sockaddr_storage address;
    socklen_t address_size;
    /* A request: the text before its size, and that behind it. */
    bool sized;
    int before_size;
    int behind_size;
    char before[SIEGE_TEXT];
    char behind[SIEGE_TEXT];
    struct siege_request *requests;
    int64_t count;
    _Atomic int64_t next; /* the first that nobody has taken */
    atomic_int lack;      /* errno: the system has no more sockets */
    int64_t start_ns;
    int64_t start_realtime_ns;
    int64_t end_ns;
    struct siege_counts counts;
    struct cpu_time process;
    struct endpoint_time endpoint;
};
extern struct siege siege;

/* Draws the sizes and their order, and maps the memory for the records: `requests` and `count`.
 * Returns false when the job has failed; siege_forget() is needed in any case. */
bool siege_plan(void);
void siege_forget(void);

/* Checks what siege_plan() can't do. */
bool siege_check(const struct siege_params *params, char problem[PROBLEM_SIZE]);

/* Opens the connections, within `arm_timeout_s`. Returns false when the job has failed. */
bool siege_connect(void);

/* Sends all requests and waits for their ends. Returns false when the job has failed. */
bool siege_run(void);

/* Closes all connections. */
void siege_disconnect(void);

/* Prints the records as `requests` events, unless it is aborted. */
bool siege_write_requests(void);
void siege_write_result(void);
void siege_print_result(void);

extern const struct kind siege_kind;

#endif
