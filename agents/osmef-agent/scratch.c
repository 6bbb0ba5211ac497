#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int scratch_open(struct scratch *scratch, const char *path)
{
    char parent[PATH_MAX];
    const char *const slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    *scratch = (struct scratch){.parent = -1};
    if (strlen(path) >= sizeof parent)
        return ENAMETOOLONG;
    snprintf(parent, sizeof parent, "%.*s", length ? length : 1, length ? path : ".");
    scratch->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return scratch->parent < 0 ? errno : 0;
}

int scratch_room(const struct scratch *scratch, uint64_t *room)
{
    struct statvfs files;
    if (fstatvfs(scratch->parent, &files) < 0)
        return errno;
    /* Some blocks are reserved for root. */
    *room = (uint64_t)files.f_frsize * (geteuid() == 0 ? files.f_bfree : files.f_bavail);
    return 0;
}

int scratch_take(struct scratch *scratch, const char *path)
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash ? slash + 1 : path;
    if (strlen(name) >= sizeof scratch->name)
        return ENAMETOOLONG;
    snprintf(scratch->name, sizeof scratch->name, "%s", name);
    return 0;
}

int scratch_make(struct scratch *scratch, const char *path)
{
    const int why = scratch_take(scratch, path);
    if (why)
        return why;
    if (mkdirat(scratch->parent, scratch->name, S_IRWXU) == 0)
        return 0;
    *scratch->name = '\0'; /* an existing directory is not removed */
    return errno;
}

static int remove_at(int parent, const char *name);

/* Returns 0 or an errno, and whether something was removed. */
static int remove_entries(DIR *directory, bool *some)
{
    int why = 0;
    struct dirent *entry;
    *some = false;
    rewinddir(directory);
    while ((entry = readdir(directory))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        const int failed = remove_at(dirfd(directory), entry->d_name);
        *some = *some || !failed;
        why = why ? why : failed;
    }
    return why;
}

/* Some file systems skip entries in a directory that changes, so it is read until no more can be
 * removed. */
static int remove_directory(int parent, const char *name, DIR *directory)
{
    for (;;) {
        bool some;
        const int why = remove_entries(directory, &some);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (!some)
            return why ? why : errno;
    }
}

/* Opens a directory, also if the program has removed its permissions. */
static int open_at(int parent, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent, name, flags);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, S_IRWXU, 0) == 0)
        fd = openat(parent, name, flags);
    if (fd >= 0)
        fchmod(fd, S_IRWXU);
    return fd;
}

static int remove_at(int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    const int why = errno;
    if (why != EISDIR && why != EPERM) /* the errno for a directory on Linux and in POSIX */
        return why;
    const int fd = open_at(parent, name);
    if (fd < 0)
        return errno == ENOTDIR ? why : errno;
    DIR *const directory = fdopendir(fd);
    if (!directory) {
        close(fd);
        return ENOMEM;
    }
    const int failed = remove_directory(parent, name, directory);
    closedir(directory);
    return failed;
}

int scratch_remove(const struct scratch *scratch)
{
    return *scratch->name ? remove_at(scratch->parent, scratch->name) : 0;
}

void scratch_close(struct scratch *scratch)
{
    if (scratch->parent >= 0)
        close(scratch->parent);
    *scratch = (struct scratch){.parent = -1};
}
