/* Who listens on this machine, as the kernel's tables tell: a connection would be taken for a
 * client's, and some servers serve only one. */
#ifndef OSMEF_BOUND_H
#define OSMEF_BOUND_H

#include "resolve.h"

#include <stdbool.h>

/* Whether a socket listens on this TCP port, or is bound to this UDP port, at the address or at all
 * of them. */
bool port_is_bound(bool udp, const struct place *at, int port);

#endif
