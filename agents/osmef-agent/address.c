#include "address.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool address_find(struct job *job, const char *host, int port, struct addrinfo **found,
                  char authority[AUTHORITY_SIZE])
{
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (job->by_hand ? 0 : AI_NUMERICHOST),
    };
    const int problem = getaddrinfo(host, service, &hints, found);
    if (problem)
        return job_fail(job, "connect", -1, "%s: %s; give %s", host, gai_strerror(problem),
                        job->by_hand ? "an address or a name that resolves" : "a numeric address");
    /* A colon means IPv6, which stands in brackets (RFC 3986, section 3.2.2). */
    snprintf(authority, AUTHORITY_SIZE, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return true;
}
