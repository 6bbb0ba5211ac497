/* exec: runs an external program as a job. */
#ifndef OSMEF_EXEC_H
#define OSMEF_EXEC_H

#include "kind.h"

extern const struct kind exec_kind;

#endif
