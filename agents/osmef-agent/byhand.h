/* The agent without a controller: `osmef-agent recv` and `osmef-agent send HOST`. */
#ifndef OSMEF_BYHAND_H
#define OSMEF_BYHAND_H

/* Takes the arguments from the command on; returns the exit status. */
int by_hand(int argc, char **argv);

#endif
