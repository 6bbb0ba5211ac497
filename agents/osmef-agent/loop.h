/* Threads that each wait for many sockets with epoll(7), edge-triggered: a descriptor is registered
 * once and no request costs a system call for it. */
#ifndef OSMEF_LOOP_H
#define OSMEF_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_LOOPS 64
#define LOOP_EVENTS 64
#define LOOP_PENDING_CLOSE 8192

struct loop;

/* A descriptor with its handler. Must exist as long as the loop runs. */
struct source {
    void (*ready)(struct loop *loop, struct source *source, uint32_t events);
    int fd; /* -1: closed; pending events are dropped */
};

struct loop {
    int index;
    int64_t now_ns; /* when the current events were fetched */
    int64_t due_ns; /* when `tick` is due; FOREVER: never */
    void (*tick)(struct loop *loop);
    int epoll;
    struct source wake;
    atomic_bool stop;
    pthread_t thread;
    bool threaded;
    /* Closed after the current events have been handled, so that no other thread can get a
     * descriptor with the same number while one of them is pending. */
    int pending_close[LOOP_PENDING_CLOSE];
    int pending_close_count;
};

/* Prepares a loop. Returns false with errno set. */
bool loop_open(struct loop *loop, int index, void (*tick)(struct loop *loop));

/* Starts its thread. Returns false with errno set. */
bool loop_start(struct loop *loop);

/* Ends the thread. May be called from any thread. */
void loop_stop(struct loop *loop);

/* Ends and joins the thread and releases all resources. Allowed for a loop that was not opened, if
 * it is all zero. */
void loop_close(struct loop *loop);

/* Watches source->fd in both directions. May be called from any thread. Returns false with
 * errno. */
bool loop_watch(struct loop *loop, struct source *source);

/* Ends the watch. Returns the descriptor, which stays open. */
int loop_unwatch(struct loop *loop, struct source *source);

/* Makes `tick` be called at this time at the latest. */
void loop_due(struct loop *loop, int64_t at_ns);

/* Closes the source's descriptor. */
void loop_drop(struct loop *loop, struct source *source);

/* Acquires what a loop has written about a descriptor before it closed it. To be called after a
 * descriptor was opened, which may have the same number. */
void loop_sync(void);

/* The number of CPUs that the program may run on, at most MAX_LOOPS. */
int loop_default_count(void);

#endif
