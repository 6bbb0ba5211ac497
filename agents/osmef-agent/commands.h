/* Reads the controller's commands, which are lines, from a descriptor. */
#ifndef OSMEF_COMMANDS_H
#define OSMEF_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#define LINE_SIZE (16 * 1024)

struct commands {
    int in; /* -1: there is no controller */
    char line[LINE_SIZE + 1];
    size_t used;
    bool too_long; /* the current line is skipped up to its end */
};

/* Reads what is available and calls `handle` for each complete line: `line[length]` may be written.
 * Returns false at the end of the commands. */
bool commands_read(struct commands *commands,
                   void (*handle)(void *context, char *line, size_t length), void *context);

/* Reports that a command is invalid, or not allowed now. */
void protocol_error(const char *message);

#endif
