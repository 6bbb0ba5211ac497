/* Threads that serve several flows each: epoll(7), one call for each flow that is ready. */
#ifndef OSMEF_POOL_H
#define OSMEF_POOL_H

#include "bulk.h"

/* Makes the sockets nonblocking, and opens what the threads wait with. */
bool pool_prepare(struct way *way);
void pool_close(void);

void pool_send(struct worker *worker);
void pool_receive(struct worker *worker);

#endif
