/* Text on standard output, a whole event at a time. */
#ifndef OSMEF_OUT_H
#define OSMEF_OUT_H

/* Appends to the event in the making. */
__attribute__((format(printf, 1, 2))) void out_format(const char *format, ...);

/* Appends a JSON string; whatever is not printable ASCII becomes a question mark. */
void out_string(const char *text);

/* Ends the line and writes it. A reader that is stuck or gone ends the program. */
void out_line(void);

#endif
