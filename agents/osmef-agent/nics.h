/* The network interfaces of the endpoint, and their traffic counters. */
#ifndef OSMEF_NICS_H
#define OSMEF_NICS_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define NIC_NAME_SIZE IF_NAMESIZE
/* Further ones are not reported. */
#define MAX_NICS 32

enum { NIC_RX_BYTES, NIC_RX_PACKETS, NIC_TX_BYTES, NIC_TX_PACKETS, NIC_VALUES };

struct nic {
    char name[NIC_NAME_SIZE];
    int64_t value[NIC_VALUES]; /* UNKNOWN: the counter was reset */
};

struct nics {
    int count;
    struct nic at[MAX_NICS];
};

/* Reads the counters of all interfaces (/proc/net/dev, proc(5)). */
struct nics nics_now(void);

/* Replaces earlier counters by their increase since then. Interfaces that were added or removed are
 * omitted. */
void nics_since(struct nics *nics);

/* Appends them as the member `interfaces`: a list for each value. */
void write_nics(const struct nics *nics);

/* Finds the interface that has a numeric address. Returns false when there is none. */
bool nic_of(const char *address, char name[NIC_NAME_SIZE]);

#endif
