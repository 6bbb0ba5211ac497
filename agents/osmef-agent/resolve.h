/* Where a host is. */
#ifndef OSMEF_RESOLVE_H
#define OSMEF_RESOLVE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

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

/* Says what to do when nothing was found. */
const char *resolve_cure(bool names);

#endif
