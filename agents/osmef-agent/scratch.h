/* A directory that is made for a program to work in, and removed with all that it has written. */
#ifndef OSMEF_SCRATCH_H
#define OSMEF_SCRATCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct scratch {
    int parent;              /* a descriptor of where it is; -1: nothing was opened */
    char name[NAME_MAX + 1]; /* "": there is none */
};

/* Opens where a directory of this path is to be. Returns 0 or an errno. */
int scratch_open(struct scratch *scratch, const char *path);

/* How many bytes this user may still write there, in `room`. Returns 0 or an errno. */
int scratch_room(const struct scratch *scratch, uint64_t *room);

/* Makes it, for this user alone; one that is there already is an error. Returns 0 or an errno. */
int scratch_make(struct scratch *scratch, const char *path);

/* Takes one that is there already. Returns 0 or an errno. */
int scratch_take(struct scratch *scratch, const char *path);

/* Removes it and what is in it, through no link; one that is gone is none. Returns 0, or the errno
 * of what can't be removed. */
int scratch_remove(const struct scratch *scratch);

void scratch_close(struct scratch *scratch);

#endif
