#include "anonymous_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_at(const char *place)
{
    char name[32];
    memcpy(name, place, strlen(place) + 1);
    const int fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    return fd;
}

static int filled(int fd, const void *data, size_t size)
{
    if (fd < 0 || write(fd, data, size) == (ssize_t)size)
        return fd;
    close(fd);
    return -1;
}

/* The page cache holds a file on disk in large folios, which cost the kernel less than the single
 * pages of a file in memory (memfd_create(2), Linux 3.17): the latter measured a third slower with
 * 8 flows. Both are read from memory. */
int anonymous_file(const void *data, size_t size)
{
    int fd = filled(open_at("/var/tmp/osmef-XXXXXX"), data, size);
    if (fd < 0)
        fd = filled((int)syscall(SYS_memfd_create, "payload", 1u /* MFD_CLOEXEC */), data, size);
    return fd < 0 ? filled(open_at("/dev/shm/osmef-XXXXXX"), data, size) : fd;
}
