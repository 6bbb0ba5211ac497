/* siege: sends HTTP requests, in a closed loop or at a rate, and records each of them. */
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
    char authority[AUTHORITY_SIZE]; /* the server's name in requests; "": its address and port */
    char path[SIEGE_PATH];          /* may contain SIEGE_MARK */
    char sizes[SIEGE_SIZES];        /* a list with commas; "": they are drawn: */
    int size_min;
    int size_max;
    double coverage; /* the share of the sizes from min to max that are drawn */
    bool replacement;
    int repetitions; /* requests of each size */
    int seed;
    int connections;
    int threads;
    bool keep_alive;
    double rate_per_s; /* 0: each connection sends its next request after the answer */
    double timeout_s;
    double arm_timeout_s;
};

enum request_error {
    REQUEST_OK,
    REQUEST_CONNECT,  /* no connection */
    REQUEST_TIMEOUT,  /* no answer in time */
    REQUEST_CLOSED,   /* the connection ended before the answer did */
    REQUEST_PROTOCOL, /* the answer is not HTTP, or not ping's JSON */
    REQUEST_STATUS,   /* the answer is not 200 */
    REQUEST_ERRORS
};

/* The record of one request. */
struct siege_request {
    int64_t start_ns;    /* its due time, from the start of the siege */
    int64_t duration_ns; /* from then to the end of the answer */
    int64_t relay_ns;    /* as reported by ping; UNKNOWN without ping */
    int64_t length;      /* bytes of pong's answer; UNKNOWN: there was none */
    int32_t size;        /* asked for */
    int32_t retries;     /* of ping; UNKNOWN without */
    int16_t code;        /* UNKNOWN: there was none */
    uint8_t error;
};

/* The counters of one thread. */
struct siege_counts {
    struct histogram answered; /* durations of the requests without an error */
    uint64_t bytes;            /* received, with heads */
    uint64_t connections;
};

struct siege {
    struct job *job;
    struct siege_params params;
    bool asks_ping; /* answers are ping's JSON */
    struct sockaddr_storage address;
    socklen_t address_size;
    /* A request: the text before and after the size. */
    bool sized;
    int before_size;
    int behind_size;
    char before[SIEGE_TEXT];
    char behind[SIEGE_TEXT];
    struct siege_request *requests;
    int64_t count;
    _Atomic int64_t next; /* the first that is not taken */
    atomic_int lack;      /* errno of a socket that could not be opened; 0: none */
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

/* Checks whether siege_plan() can work with the parameters. */
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
