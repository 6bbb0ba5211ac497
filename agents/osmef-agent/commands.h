/* The controller's lines, as they come on a descriptor. */
#ifndef OSMEF_COMMANDS_H
#define OSMEF_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#define LINE_SIZE (16 * 1024)

struct commands {
    int in; /* -1 by hand: nobody sends any */
    char line[LINE_SIZE + 1];
    size_t used;
    bool too_long; /* the line in hand is skipped up to its end */
};

/* Reads what is there and has each whole line obeyed: `line[length]` may be written. Returns false
 * when the controller is gone. */
bool commands_read(struct commands *commands, void (*obey)(void *whom, char *line, size_t length),
                   void *whom);

/* Says that a command can't be understood or does not fit. */
void protocol_error(const char *message);

#endif
