/* Files in memory or on disk without a name, to send from without a copy. */
#ifndef OSMEF_ANONYMOUS_FILE_H
#define OSMEF_ANONYMOUS_FILE_H

#include <stddef.h>

/* Creates an unlinked file with these contents. Returns its descriptor, or -1 with errno. */
int anonymous_file(const void *data, size_t size);

#endif
