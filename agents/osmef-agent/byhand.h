/* The agent without a controller: recv and send, pong, ping and siege. */
#ifndef OSMEF_BYHAND_H
#define OSMEF_BYHAND_H

#include <stdbool.h>

/* Whether this command is one of them. */
bool is_by_hand(const char *command);

/* Takes the arguments from the command on; returns the exit status. */
int by_hand(int argc, char **argv);

#endif
