/* The memory of the payload. */
#ifndef OSMEF_PAYLOAD_H
#define OSMEF_PAYLOAD_H

#include "bulk.h"

#include <sys/types.h>

/* The size of one send(). On loopback and between namespaces 64 KiB to 256 KiB took up to half as
 * much CPU time again per byte, and 1 MiB saved nothing. */
#define PAYLOAD_SIZE (512 * 1024)

/* Allocates what both directions need. Pages touched here cost no time in the transfer. */
bool payload_open(struct bulk *bulk);
void payload_close(void);

/* Whether payload is sent from a file, without a copy. */
bool payload_is_file(void);

/* Sends at most `most` bytes as the mode requires. Returns as send(). */
ssize_t payload_send(const struct flow *flow, size_t most);

/* The same with a copy in all modes. */
ssize_t payload_send_copy(int fd, size_t most, int flags);

/* Receives as the mode requires. Returns as recv(). */
ssize_t payload_receive(const struct flow *flow, int flags);

#endif
