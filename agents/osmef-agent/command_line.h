/* The commands for use without a controller: recv and send, pong, ping and siege. */
#ifndef OSMEF_COMMAND_LINE_H
#define OSMEF_COMMAND_LINE_H

#include <stdbool.h>

/* Whether there is a command of this name. */
bool is_command(const char *command);

/* Runs the command argv[0] with its arguments. Returns the exit status. */
int run_command(int argc, char **argv);

#endif
