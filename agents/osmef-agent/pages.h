/* Memory that the kernel gives in whole pages. */
#ifndef OSMEF_PAGES_H
#define OSMEF_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* Returns zeroes, which munmap() gives back, or NULL with errno. Pages that nothing is written to
 * cost nothing; with MAP_POPULATE all are touched now, and cost no time later. */
static inline void *pages_map(size_t size, int flags)
{
    void *const memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

#endif
