/* Removes an agent's directory when the connection ends, whether or not the controller still
 * runs. */
#ifndef OSMEF_CLEANUP_H
#define OSMEF_CLEANUP_H

/* cleanup DIRECTORY [LINK TARGET], the arguments of main(). Returns the exit status. */
int cleanup(int argc, char **argv);

#endif
