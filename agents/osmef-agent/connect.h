/* The sender's side of the beginning: connect all flows and have them admitted. */
#ifndef OSMEF_CONNECT_H
#define OSMEF_CONNECT_H

#include "job.h"

bool connect_flows(struct job *job);

#endif
