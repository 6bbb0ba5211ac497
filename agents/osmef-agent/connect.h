/* The connecting end's beginning: connect all flows and have them admitted. */
#ifndef OSMEF_CONNECT_H
#define OSMEF_CONNECT_H

#include "link.h"

bool connect_flows(struct job *job, const struct link_params *params, struct link *link);

#endif
