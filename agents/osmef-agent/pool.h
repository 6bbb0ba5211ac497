/* Threads that serve several flows each, with epoll(7) and one call for each ready flow. */
#ifndef OSMEF_POOL_H
#define OSMEF_POOL_H

#include "bulk.h"

/* Makes the sockets nonblocking, and opens the epoll descriptors of the threads. */
bool pool_prepare(struct way *way);
void pool_close(void);

void pool_send(struct worker *worker);
void pool_receive(struct worker *worker);

#endif
