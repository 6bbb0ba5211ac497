/* The clock that everything is measured with. */
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

/* Monotonic time; unlike the real-time clock nobody can set it during a measurement. */
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

#endif
