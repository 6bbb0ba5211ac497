/* What the agent's commands for people have in common. */
#ifndef OSMEF_USAGE_H
#define OSMEF_USAGE_H

/* Says what is wrong with the arguments, and exits. */
__attribute__((format(printf, 1, 2))) _Noreturn void bad_usage(const char *format, ...);

/* Reads an option's number, or exits. */
double usage_number(const char *option, const char *text, double low, double high);

/* The address that listens on all others. */
const char *usage_any_address(void);

#endif
