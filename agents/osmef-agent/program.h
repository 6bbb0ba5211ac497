/* An external program: finds it, checks whether it can be run, and runs it. */
#ifndef OSMEF_PROGRAM_H
#define OSMEF_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* A program with the descriptors of its standard streams and its channel (-1: none). */
struct program {
    char **argv;
    char path[PATH_MAX];
    int input;
    int output[2];
    int channel;
};

/* Finds argv[0] in PATH, or as a path. Returns 0 or an errno. */
int program_find(struct program *program);

/* Executes it in a traced process, which is killed before its first instruction. Returns 0, or the
 * errno of execve(2); also 0 where tracing is not permitted. */
int program_try(const struct program *program);

/* Forks a process that executes the program once it has read a byte from `start`. When execve(2)
 * fails, it writes the errno to `error`; at the end of file of `start` it ends. Returns its pid, or
 * -1. */
pid_t program_hold(const struct program *program, int start, int error);

#endif
