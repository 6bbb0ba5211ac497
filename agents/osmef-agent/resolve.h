/* Addresses of hosts. */
#ifndef OSMEF_RESOLVE_H
#define OSMEF_RESOLVE_H

#include "job.h"
#include "link.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#define AUTHORITY_SIZE (HOST_SIZE + 8)
#define MAX_ADDRESSES 4

struct socket_address {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } sockaddr;
};

struct address_list {
    int count;
    struct socket_address at[MAX_ADDRESSES];
};

/* Reads a numeric address, IPv6 with %SCOPE where it needs one, and with `names` also a name of
 * /etc/hosts. A resolver would be a fifth of the program, and a query can't be interrupted. Returns
 * false when nothing is found. */
bool resolve(const char *host, int port, bool names, struct address_list *addresses);

/* The same for the peer of a job, with names if there is no controller. Returns false when the job
 * has failed. */
bool resolve_peer(struct job *job, const char *host, int port, struct address_list *addresses);

/* Writes the value of the Host field. */
void resolve_authority(const char *host, int port, char authority[AUTHORITY_SIZE]);

/* A hint for the case that nothing is found. */
const char *resolve_cure(bool names);

#endif
