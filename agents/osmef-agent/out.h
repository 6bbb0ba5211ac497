/* Standard output, written one whole event at a time. */
#ifndef OSMEF_OUT_H
#define OSMEF_OUT_H

/* Appends to the current event. */
__attribute__((format(printf, 1, 2))) void out_format(const char *format, ...);

/* Appends a JSON string; characters that are not printable ASCII become question marks. */
void out_string(const char *text);

/* Ends the line and writes it. Exits when the reader has blocked for too long, or is gone. */
void out_line(void);

#endif
