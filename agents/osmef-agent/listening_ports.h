/* Which ports have a listening socket, from the kernel's tables. A connection as a probe would
 * count as a client, and some servers serve only one. */
#ifndef OSMEF_LISTENING_PORTS_H
#define OSMEF_LISTENING_PORTS_H

#include "resolve.h"

#include <stdbool.h>

/* Whether a socket listens on this TCP port, or is bound to this UDP port, at the address or at all
 * of them. */
bool port_is_bound(bool udp, const struct socket_address *at, int port);

/* Whether a program could bind a socket without SO_REUSEADDR to this address, which is refused
 * for a minute after the last connection there. All other obstacles are left to the program to
 * report. */
bool port_can_be_bound(bool udp, const struct socket_address *at);

#endif
