/* Files to send from without a copy. */
#ifndef OSMEF_UNNAMED_H
#define OSMEF_UNNAMED_H

#include <stddef.h>

/* Makes a file without a name that holds these bytes. Returns its descriptor, or -1 with errno. */
int unnamed_file(const void *data, size_t size);

#endif
