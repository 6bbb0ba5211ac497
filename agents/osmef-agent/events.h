/* A job's reports as events of the protocol. */
#ifndef OSMEF_EVENTS_H
#define OSMEF_EVENTS_H

#include "job.h"

extern const struct report event_report;

#endif
