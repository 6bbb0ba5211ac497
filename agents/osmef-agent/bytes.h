/* Whole numbers as bytes of a message, the highest first, on machines of either order. */
#ifndef OSMEF_BYTES_H
#define OSMEF_BYTES_H

#include <stdint.h>

static inline void put(unsigned char *at, int size, uint64_t value)
{
    for (int i = size - 1; i >= 0; i--, value >>= 8)
        at[i] = (unsigned char)value;
}

static inline uint64_t get(const unsigned char *at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

#endif
