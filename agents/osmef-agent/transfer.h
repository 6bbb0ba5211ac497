/* The transfer itself, seen from the main thread: start, sample, watch, end. */
#ifndef OSMEF_TRANSFER_H
#define OSMEF_TRANSFER_H

#include "bulk.h"

/* Runs the connected flows to their end and fills in the outcome, or fails. */
bool transfer(struct bulk *bulk);

#endif
