/* A bulk transfer's reports as events of the protocol. */
#ifndef OSMEF_BULK_EVENTS_H
#define OSMEF_BULK_EVENTS_H

#include "bulk.h"

extern const struct bulk_view bulk_event_view;

/* Appends the result's members. */
void bulk_tell_result(const struct bulk *bulk);

#endif
