#include "ports.h"

#include <errno.h>

bool ports_bind(int fd, struct sockaddr_storage *address, socklen_t length, int *port)
{
    for (int taken = 0; taken <= PORTS_MOST_TAKEN && *port <= 65535; taken++) {
        *port_in(address) = htons((uint16_t)*port);
        const bool bound = bind(fd, (struct sockaddr *)address, length) == 0;
        *port += *port > 0;
        if (bound)
            return true;
        if (errno != EADDRINUSE)
            return false;
    }
    return false;
}
