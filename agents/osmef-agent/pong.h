/* The servers of the ping-pong workload. docs/pingpong.md describes their protocol. */
#ifndef OSMEF_PONG_H
#define OSMEF_PONG_H

#include "kind.h"

extern const struct kind pong_kind;
extern const struct kind ping_kind;

#endif
