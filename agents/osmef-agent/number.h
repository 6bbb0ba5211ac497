/* Numbers in the syntax of JSON. */
#ifndef OSMEF_NUMBER_H
#define OSMEF_NUMBER_H

/* Reads the number at the beginning of the text. Returns its end, or NULL if there is none. Up to
 * 15 digits and a power of ten of up to 22 give the nearest double (Clinger, "How to read floating
 * point numbers accurately", 1990), others one within a few units in the last place; one that is
 * too large becomes infinite. strtod(3) takes more than JSON does and is seven times this size. */
const char *number_read(const char *text, double *value);

#endif
