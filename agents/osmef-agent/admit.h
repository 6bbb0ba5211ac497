/* How the listening end begins: it listens, and authenticates the connections of the job's
 * flows. */
#ifndef OSMEF_ADMIT_H
#define OSMEF_ADMIT_H

#include "link.h"

/* Returns with all flows connected and the listening socket closed, or with a failure. */
bool admit_flows(struct job *job, struct link_params *params, struct link *link);

#endif
