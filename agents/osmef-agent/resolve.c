#include "resolve.h"

#include "number.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOSTS "/etc/hosts"
#define BLANKS " \t\r\n"

static bool read_scope(const char *text, uint32_t *scope)
{
    double number;
    *scope = if_nametoindex(text);
    if (*scope == 0 && number_read(text, &number) && number > 0 && number < UINT32_MAX)
        *scope = (uint32_t)number;
    return *scope != 0;
}

static bool read_v6(const char *text, int port, struct socket_address *result)
{
    char address[INET6_ADDRSTRLEN + 1];
    const size_t length = strcspn(text, "%");
    result->size = sizeof result->sockaddr.v6;
    result->sockaddr.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (length >= sizeof address)
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    return inet_pton(AF_INET6, address, &result->sockaddr.v6.sin6_addr) == 1 &&
           (!text[length] || read_scope(text + length + 1, &result->sockaddr.v6.sin6_scope_id));
}

static bool read_address(const char *text, int port, struct socket_address *result)
{
    memset(result, 0, sizeof *result);
    result->size = sizeof result->sockaddr.v4;
    result->sockaddr.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    return inet_pton(AF_INET, text, &result->sockaddr.v4.sin_addr) == 1 ||
           read_v6(text, port, result);
}

/* A line of hosts(5): an address and its names. */
static void read_line(char *line, const char *host, int port, struct address_list *addresses)
{
    char *rest;
    line[strcspn(line, "#")] = '\0';
    const char *const address = strtok_r(line, BLANKS, &rest);
    for (const char *name; address && (name = strtok_r(NULL, BLANKS, &rest));) {
        if (strcasecmp(name, host) != 0 || addresses->count == MAX_ADDRESSES)
            continue;
        addresses->count += read_address(address, port, &addresses->at[addresses->count]);
        return;
    }
}

static void read_hosts(const char *host, int port, struct address_list *addresses)
{
    char line[1024];
    FILE *const file = fopen(HOSTS, "re");
    while (file && fgets(line, sizeof line, file))
        read_line(line, host, port, addresses);
    if (file)
        fclose(file);
    /* localhost needs no entry (RFC 6761, section 6.3). */
    if (addresses->count == 0 && strcasecmp(host, "localhost") == 0)
        addresses->count = read_address("127.0.0.1", port, &addresses->at[0]);
}

const char *resolve_cure(bool names)
{
    return names ? "give a numeric address or a name of /etc/hosts; `getent hosts NAME` finds one"
                 : "give a numeric address";
}

bool resolve(const char *host, int port, bool names, struct address_list *addresses)
{
    addresses->count = read_address(host, port, &addresses->at[0]);
    if (addresses->count == 0 && names)
        read_hosts(host, port, addresses);
    return addresses->count > 0;
}

bool resolve_peer(struct job *job, const char *host, int port, struct address_list *addresses)
{
    return resolve(host, port, job->standalone, addresses) ||
           job_fail(job, "connect", -1, "%s is no address; %s", host,
                    resolve_cure(job->standalone));
}

/* A colon means IPv6, which stands in brackets (RFC 3986, section 3.2.2). */
void resolve_authority(const char *host, int port, char authority[AUTHORITY_SIZE])
{
    snprintf(authority, AUTHORITY_SIZE, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}
