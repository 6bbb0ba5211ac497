/* Errors of system calls. */
#ifndef OSMEF_ERRORS_H
#define OSMEF_ERRORS_H

#include <errno.h>
#include <stdbool.h>

/* Whether a socket could not be opened for lack of descriptors or memory of this machine. */
static inline bool is_resource_error(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

#endif
