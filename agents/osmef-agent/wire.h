/* The 32 bytes that open a data connection, and its socket's options. */
#ifndef OSMEF_WIRE_H
#define OSMEF_WIRE_H

#include "params.h"

#define HEADER_SIZE 32
#define ADMITTED '+'

/* Writes the header of one flow of a sender. */
void wire_header(const struct params *params, int flow, unsigned char header[HEADER_SIZE]);

/* Returns the flow's number, or -1 for a stranger's header. A receiver by hand learns the number
 * of flows and the duration from the first good one. */
int wire_check(struct params *params, const unsigned char header[HEADER_SIZE]);

/* With it a close, or the end of the process, resets the connection: a peer never takes a broken
 * flow for one that has ended. Without it the connection ends properly. */
void wire_linger_reset(int fd, bool reset);

#endif
