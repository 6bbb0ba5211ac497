/* Who listens on this machine, as the kernel's tables tell: a connection would be taken for a
 * client's, and some servers serve only one. */
#ifndef OSMEF_BOUND_H
#define OSMEF_BOUND_H

#include "resolve.h"

#include <stdbool.h>

/* Whether a socket listens on this TCP port, or is bound to this UDP port, at the address or at all
 * of them. */
bool port_is_bound(bool udp, const struct place *at, int port);

/* Whether a program could bind a socket to this place that does not ask for SO_REUSEADDR, which is
 * refused for a minute after the last connection there. What else may hinder it, it tells itself. */
bool port_can_be_bound(bool udp, const struct place *at);

#endif
