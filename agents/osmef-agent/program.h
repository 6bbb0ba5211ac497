/* An external program: where it is, whether it can be run, and running it. */
#ifndef OSMEF_PROGRAM_H
#define OSMEF_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* What a program gets; the descriptors are its standard ones, and its channel (-1: none). */
struct program {
    char **argv;
    char path[PATH_MAX];
    int input;
    int output[2];
    int channel;
};

/* Finds argv[0] in PATH, or where it names a path itself. Returns 0 or an errno. */
int program_find(struct program *program);

/* Has the kernel load it and kills it before its first instruction. Returns 0, or the errno that
 * says why it can't be run; 0 as well where the kernel doesn't let us try. */
int program_try(const struct program *program);

/* Forks a process that waits for a byte from `go` and becomes the program then. It writes to
 * `failed` the errno that says why it can't; at the end of `go` it ends. Returns its number, or
 * -1. */
pid_t program_hold(const struct program *program, int go, int failed);

#endif
