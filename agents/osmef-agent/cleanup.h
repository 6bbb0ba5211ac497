/* Removes an agent's own directory when the connection ends, whatever has become of the controller. */
#ifndef OSMEF_CLEANUP_H
#define OSMEF_CLEANUP_H

/* cleanup DIRECTORY [LINK TARGET], the arguments of main(). Returns the exit status. */
int cleanup(int argc, char **argv);

#endif
