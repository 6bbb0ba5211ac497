/* Converts arguments of the command line to a command as a controller would send it, by a table of
 * arguments. The values are checked in one place, the kind's own table of fields. */
#ifndef OSMEF_ARGUMENTS_H
#define OSMEF_ARGUMENTS_H

#include "json.h"

/* Prints what is wrong with the arguments, and exits. */
__attribute__((format(printf, 1, 2))) _Noreturn void bad_usage(const char *format, ...);

/* The address to listen on for all addresses of this machine. */
const char *usage_any_address(void);

enum argument_value {
    ARGUMENT_NUMBER,
    ARGUMENT_TEXT,
    ARGUMENT_TRUE, /* both without a value */
    ARGUMENT_FALSE,
    ARGUMENT_WORD /* the value is in the table */
};

struct argument {
    const char *name; /* "--duration" */
    const char *key;  /* the command's member: "duration_s" */
    enum argument_value value;
    const char *word;
    double low; /* the range of a number, where it differs from the field's */
    double high;
};

#define ARGUMENT_END                                                                               \
    {                                                                                              \
        NULL, NULL, ARGUMENT_NUMBER, NULL, 0, 0                                                    \
    }

/* The arguments of one command. */
struct argument_tables {
    const char *command;
    const struct argument *tables[2]; /* each ends with ARGUMENT_END */
    const char *operand; /* the key of the argument without an option; NULL: there is none */
};

/* Reads all arguments from argv[1] on. Prints what is wrong and exits, as do all functions here. */
void arguments_read(const struct argument_tables *known, int argc, char **argv,
                    struct json_object *command);

void arguments_add_text(struct json_object *command, const char *key, const char *text);
void arguments_add_number(struct json_object *command, const char *key, double number);

/* Returns the text of the member with this key, or `otherwise`. */
const char *arguments_text(const struct json_object *command, const char *key,
                           const char *otherwise);

/* Adds `host` and `port` from the first bytes of HOST:PORT, where an IPv6 address is in brackets.
 * With the default 0 the port is required. May be called once in a process. */
void arguments_add_address(struct json_object *command, const char *text, size_t length,
                           int default_port);

/* Prints what the kind finds wrong with the command, with the option's name in place of the key,
 * and exits. */
_Noreturn void arguments_refuse(const struct argument_tables *known,
                                const struct json_object *command, const char *problem);

#endif
