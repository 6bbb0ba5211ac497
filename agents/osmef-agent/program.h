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

/* Forks a process that executes the program once it has read a byte from `start`. When execve(2)
 * fails, it writes the errno to `error`; at the end of file of `start` it ends. Returns its pid, or
 * -1. */
pid_t program_hold(const struct program *program, int start, int error);

#endif
