#include "nics.h"

#include "events.h"
#include "out.h"
#include "resolve.h"
#include "tcpinfo.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 10 /* of /proc/net/dev, up to the last one used */

static const char *const names[NIC_VALUES] = {"rx_bytes", "rx_packets", "tx_bytes", "tx_packets"};
static const int columns[NIC_VALUES] = {0, 1, 8, 9};

/* Reads a line "  eth0: 1 2 3 ...". Returns false for any other line. */
static bool read_line(char *line, struct nic *nic)
{
    int64_t value[COLUMNS];
    char *at = strchr(line, ':');
    if (!at)
        return false;
    *at++ = '\0';
    line += strspn(line, " ");
    for (int column = 0; column < COLUMNS; column++) {
        char *const begin = at;
        value[column] = strtoll(begin, &at, 10);
        if (at == begin)
            return false;
    }
    snprintf(nic->name, sizeof nic->name, "%s", line);
    for (int i = 0; i < NIC_VALUES; i++)
        nic->value[i] = value[columns[i]];
    return true;
}

struct nics nics_now(void)
{
    struct nics nics = {.count = 0};
    char line[512];
    FILE *file = fopen("/proc/net/dev", "re");
    while (file && nics.count < MAX_NICS && fgets(line, sizeof line, file))
        nics.count += read_line(line, &nics.at[nics.count]);
    if (file)
        fclose(file);
    return nics;
}

static struct nic *find(struct nics *nics, const char *name)
{
    for (int i = 0; i < nics->count; i++)
        if (strcmp(nics->at[i].name, name) == 0)
            return &nics->at[i];
    return NULL;
}

void nics_since(struct nics *nics)
{
    struct nics now = nics_now();
    struct nics earlier = *nics;
    nics->count = 0;
    for (int i = 0; i < earlier.count; i++) {
        const struct nic *later = find(&now, earlier.at[i].name);
        struct nic *grown = &nics->at[nics->count];
        if (!later)
            continue;
        *grown = *later;
        for (int value = 0; value < NIC_VALUES; value++) {
            const int64_t before = earlier.at[i].value[value];
            grown->value[value] =
                later->value[value] < before ? UNKNOWN : later->value[value] - before;
        }
        nics->count++;
    }
}

void write_nics(const struct nics *nics)
{
    out_format(",\"interfaces\":{\"name\":[");
    for (int i = 0; i < nics->count; i++) {
        out_format(i ? "," : "");
        out_string(nics->at[i].name);
    }
    out_format("]");
    for (int value = 0; value < NIC_VALUES; value++) {
        out_format(",\"%s\":[", names[value]);
        for (int i = 0; i < nics->count; i++)
            write_value(i ? "," : "", nics->at[i].value[value]);
        out_format("]");
    }
    out_format("}");
}

static bool same(const struct sockaddr *one, const struct socket_address *wanted)
{
    if (!one || one->sa_family != wanted->sockaddr.any.sa_family)
        return false;
    if (one->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)one)->sin_addr.s_addr ==
               wanted->sockaddr.v4.sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)(const void *)one)->sin6_addr,
                  &wanted->sockaddr.v6.sin6_addr, sizeof(struct in6_addr)) == 0;
}

bool nic_of(const char *address, char name[NIC_NAME_SIZE])
{
    struct address_list found;
    struct ifaddrs *all;
    if (!resolve(address, 0, false, &found) || getifaddrs(&all) < 0)
        return false;
    const struct ifaddrs *at = all;
    while (at && !same(at->ifa_addr, &found.at[0]))
        at = at->ifa_next;
    if (at)
        snprintf(name, NIC_NAME_SIZE, "%s", at->ifa_name);
    freeifaddrs(all);
    return at != NULL;
}
