/* The output of jobs as text lines. */
#ifndef OSMEF_LINES_H
#define OSMEF_LINES_H

#include "bulk.h"

extern const struct report line_report;

extern const struct bulk_view bulk_line_view;
void bulk_print_result(const struct bulk *bulk);

#endif
