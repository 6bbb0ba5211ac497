/* Sockets of a job beside its connections, and the ports that they get. */
#ifndef OSMEF_PORTS_H
#define OSMEF_PORTS_H

#include "flow_threads.h"
#include "sockaddr.h"

#include <stdbool.h>

/* So many ports that others hold are passed over. */
#define PORTS_MOST_TAKEN 64

/* Binds to the first port from this one on that nobody holds, and goes past it; 0: any. */
bool ports_bind(int fd, struct sockaddr_storage *address, socklen_t length, int *port);

/* Where the flow's other end is. The job fails where these return false. */
bool ports_find_peer(const struct flow_threads *threads, int flow, struct sockaddr_storage *peer,
                     socklen_t *size);

/* Tells the peer, on the flow's connection, the port of a socket beside it: 2 bytes, big endian. */
bool ports_send(const struct flow_threads *threads, int flow, int fd);

/* Finds the peer, and waits until it tells its port. */
bool ports_receive(const struct flow_threads *threads, int flow, int64_t deadline_ns,
                   struct sockaddr_storage *peer, socklen_t *size);

#endif
