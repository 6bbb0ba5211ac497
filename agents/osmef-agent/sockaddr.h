/* The port of a socket address. */
#ifndef OSMEF_SOCKADDR_H
#define OSMEF_SOCKADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

/* In network byte order; it has the same offset in IPv4 and IPv6 addresses. */
static inline in_port_t *port_in(struct sockaddr_storage *address)
{
    return &((struct sockaddr_in *)(void *)address)->sin_port;
}

#endif
