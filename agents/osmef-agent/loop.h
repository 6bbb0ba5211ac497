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

/* What waits for a descriptor, and lies in memory as long as the loop runs. */
struct source {
    void (*ready)(struct loop *loop, struct source *source, uint32_t events);
    int fd; /* -1: closed; an event that was on its way is not told any more */
};

struct loop {
    int index;
    int64_t now_ns; /* when the events in hand were fetched */
    int64_t due_ns; /* when `tick` wants to be called; FOREVER: never */
    void (*tick)(struct loop *loop);
    int epoll;
    struct source wake;
    atomic_bool stop;
    pthread_t thread;
    bool threaded;
    /* Closed only behind the events in hand: no other thread gets the number of a descriptor while
     * one of its events may still be told. */
    int pending_close[LOOP_PENDING_CLOSE];
    int pending_close_count;
};

/* Prepares a loop. Returns false with errno set. */
bool loop_open(struct loop *loop, int index, void (*tick)(struct loop *loop));

/* Starts its thread. Returns false with errno set. */
bool loop_start(struct loop *loop);

/* Ends the thread, from itself or from another one. */
void loop_stop(struct loop *loop);

/* Ends and joins the thread and gives everything back; fine for one that was never opened as long
 * as it is all zero. */
void loop_close(struct loop *loop);

/* Watches source->fd in both directions; also from another thread. Returns false with errno. */
bool loop_watch(struct loop *loop, struct source *source);

/* Ends the watch and leaves the descriptor open, which is returned. */
int loop_unwatch(struct loop *loop, struct source *source);

/* Has `tick` called at that moment at the latest. */
void loop_due(struct loop *loop, int64_t at_ns);

/* Closes the source's descriptor. */
void loop_drop(struct loop *loop, struct source *source);

/* Who has got a descriptor from the kernel sees from now on what the loop that had closed one of
 * the same number wrote before. */
void loop_sync(void);

/* The number of CPUs that the program may run on, at most MAX_LOOPS. */
int loop_default_count(void);

#endif
