/* Where an HTTP server is. */
#ifndef OSMEF_ADDRESS_H
#define OSMEF_ADDRESS_H

#include "job.h"
#include "link.h"

#include <netdb.h>

#define AUTHORITY_SIZE (HOST_SIZE + 8)

/* Looks the host up; names only by hand, since that can't be interrupted. `authority` becomes what
 * a Host field says. Returns false when the job has failed; else `found` must be freed. */
bool address_find(struct job *job, const char *host, int port, struct addrinfo **found,
                  char authority[AUTHORITY_SIZE]);

#endif
