/* A job's reports as lines for people. */
#ifndef OSMEF_LINES_H
#define OSMEF_LINES_H

#include "job.h"

extern const struct report line_report;

#endif
