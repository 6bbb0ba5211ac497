/* The memory that payload comes from and goes to. */
#ifndef OSMEF_PAYLOAD_H
#define OSMEF_PAYLOAD_H

#include "bulk.h"

#include <sys/types.h>

/* What a sender offers to the kernel in one call. Measured on loopback and between namespaces:
 * 64 KiB to 256 KiB cost up to half as much CPU time again for each byte, 1 MiB saves nothing. */
#define PAYLOAD_SIZE (512 * 1024)

/* Prepares what both ways need. Pages that are touched now cost no time in the transfer. */
bool payload_open(struct bulk *bulk);
void payload_close(void);

/* Whether payload is sent from a file, without a copy. */
bool payload_is_file(void);

/* Sends at most `most` bytes in the way that the mode says; returns as send(). */
ssize_t payload_send(const struct flow *flow, size_t most);

/* The same with a copy, whatever the mode. */
ssize_t payload_send_copy(int fd, size_t most, int flags);

/* Receives what there is in the way that the mode says; returns as recv(). */
ssize_t payload_receive(const struct flow *flow, int flags);

#endif
