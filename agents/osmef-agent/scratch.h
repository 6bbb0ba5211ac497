/* A directory that is created for a program to work in, and removed with its contents. */
#ifndef OSMEF_SCRATCH_H
#define OSMEF_SCRATCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct scratch {
    int parent;              /* descriptor of the parent directory; -1: not opened */
    char name[NAME_MAX + 1]; /* "": there is none */
};

/* Opens the parent directory of this path. Returns 0 or an errno. */
int scratch_open(struct scratch *scratch, const char *path);

/* Sets `room` to how many bytes this user may still write there. Returns 0 or an errno. */
int scratch_room(const struct scratch *scratch, uint64_t *room);

/* Creates the directory, for this user alone. An existing one is an error. Returns 0 or an
 * errno. */
int scratch_make(struct scratch *scratch, const char *path);

/* Takes over an existing directory. Returns 0 or an errno. */
int scratch_take(struct scratch *scratch, const char *path);

/* Removes the directory and its contents, without following links. A missing one is no error.
 * Returns 0 or the errno of what can't be removed. */
int scratch_remove(const struct scratch *scratch);

void scratch_close(struct scratch *scratch);

#endif
