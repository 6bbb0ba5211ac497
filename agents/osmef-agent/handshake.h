/* The receiver's side of the beginning: listen, and admit the flows among strangers. */
#ifndef OSMEF_HANDSHAKE_H
#define OSMEF_HANDSHAKE_H

#include "job.h"

/* Returns with all flows connected and the listening socket closed, or with a failure. */
bool admit_flows(struct job *job);

#endif
