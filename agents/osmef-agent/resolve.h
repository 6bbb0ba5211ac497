/* Where a host is. */
#ifndef OSMEF_RESOLVE_H
#define OSMEF_RESOLVE_H

#include "job.h"
#include "link.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#define AUTHORITY_SIZE (HOST_SIZE + 8)
#define MOST_PLACES 4

struct place {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
};

struct places {
    int count;
    struct place at[MOST_PLACES];
};

/* Reads a numeric address, IPv6 with %SCOPE where it needs one, and with `names` also a name of
 * /etc/hosts. A resolver would be a fifth of the program, and asking one can't be interrupted.
 * Returns false when nothing is found. */
bool resolve(const char *host, int port, bool names, struct places *places);

/* Does so for the other end of a job, with names only by hand. Returns false when the job has
 * failed. */
bool resolve_peer(struct job *job, const char *host, int port, struct places *places);

/* Writes what a Host field says of it. */
void resolve_authority(const char *host, int port, char authority[AUTHORITY_SIZE]);

/* Says what to do when nothing was found. */
const char *resolve_cure(bool names);

#endif
