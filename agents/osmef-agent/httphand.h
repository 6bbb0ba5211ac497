/* pong, ping and siege without a controller. */
#ifndef OSMEF_HTTPHAND_H
#define OSMEF_HTTPHAND_H

#include <stdbool.h>

/* Whether this command is one of them. */
bool http_is_by_hand(const char *command);

/* Takes the arguments from the command on; returns the exit status. */
int http_by_hand(int argc, char **argv);

#endif
