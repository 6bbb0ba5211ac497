/* The clock of all measurements. */
#ifndef OSMEF_CLOCK_H
#define OSMEF_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define FOREVER INT64_MAX

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Monotonic time: unlike the real-time clock it can't be set during a measurement. */
static inline int64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline int64_t seconds_ns(double seconds)
{
    return (int64_t)(seconds * (double)NS_PER_S);
}

static inline double ns_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* The time from now to a later one, as a timeout of ppoll(2); none when it has passed. */
static inline struct timespec timeout_until(int64_t until_ns)
{
    const int64_t left = until_ns - now_ns();
    return (struct timespec){left > 0 ? left / NS_PER_S : 0, left > 0 ? left % NS_PER_S : 0};
}

#endif
