/* Finds a transfer that no longer moves. */
#ifndef OSMEF_WATCHDOG_H
#define OSMEF_WATCHDOG_H

#include "bulk.h"

struct watchdog {
    int64_t next_ns;
};

/* There is one watchdog, as there is one job at a time. */
const struct watchdog *watchdog_start(const struct bulk *bulk);

/* Fails the job when no flow moves any more, and sets the time of the next look. */
void watchdog_look(struct bulk *bulk);

#endif
