#include "address.h"

#include <stdio.h>
#include <string.h>

bool address_find(struct job *job, const char *host, int port, struct places *places,
                  char authority[AUTHORITY_SIZE])
{
    if (!resolve(host, port, job->by_hand, places))
        return job_fail(job, "connect", -1, "%s is no address; %s", host,
                        resolve_cure(job->by_hand));
    /* A colon means IPv6, which stands in brackets (RFC 3986, section 3.2.2). */
    snprintf(authority, AUTHORITY_SIZE, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return true;
}
