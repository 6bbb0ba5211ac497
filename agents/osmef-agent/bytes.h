/* Integers in messages, in big-endian byte order. */
#ifndef OSMEF_BYTES_H
#define OSMEF_BYTES_H

#include <stddef.h>
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

/* Fills memory with incompressible data. */
static inline void fill_random(unsigned char *at, size_t size)
{
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < size; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        at[i] = (unsigned char)(random >> 56);
    }
}

#endif
