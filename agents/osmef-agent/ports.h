/* Sockets of a job beside its connections, and their ports. */
#ifndef OSMEF_PORTS_H
#define OSMEF_PORTS_H

#include "flow_threads.h"
#include "sockaddr.h"

#include <stdbool.h>

/* How many ports in use are skipped. */
#define PORTS_MAX_TAKEN 64

/* Binds to the first free port from this one on, and sets `port` to the next one; 0: any. */
bool ports_bind(int fd, struct sockaddr_storage *address, socklen_t length, int *port);

/* Finds the address of the flow's peer. These functions return false when the job has failed. */
bool ports_find_peer(const struct flow_threads *threads, int flow, struct sockaddr_storage *peer,
                     socklen_t *size);

/* Sends the port of a socket beside the flow's connection to the peer: 2 bytes, big endian. */
bool ports_send(const struct flow_threads *threads, int flow, int fd);

/* Finds the address of the peer, and waits until it has sent its port. */
bool ports_receive(const struct flow_threads *threads, int flow, int64_t deadline_ns,
                   struct sockaddr_storage *peer, socklen_t *size);

#endif
