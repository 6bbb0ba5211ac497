/* The listening end's beginning: listen, and admit the flows among strangers. */
#ifndef OSMEF_ADMIT_H
#define OSMEF_ADMIT_H

#include "link.h"

/* Returns with all flows connected and the listening socket closed, or with a failure. */
bool admit_flows(struct job *job, struct link_params *params, struct link *link);

#endif
