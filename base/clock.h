/* The monotonic clock, and the time of day. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Nanoseconds, and seconds, since an arbitrary moment. Neither decreases. */
static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double clock_s(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Seconds since 1970, with fractions. Jumps when the system's clock is set. */
static inline double clock_wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
