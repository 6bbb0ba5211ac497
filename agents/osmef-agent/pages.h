/* Memory in whole pages of the kernel. */
#ifndef OSMEF_PAGES_H
#define OSMEF_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* Returns zeroed memory, to be released with munmap(), or NULL with errno. Untouched pages take no
 * memory; with MAP_POPULATE all are touched here, and cost no time later. */
static inline void *pages_map(size_t size, int flags)
{
    void *const memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

#endif
