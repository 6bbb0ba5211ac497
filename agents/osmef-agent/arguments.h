/* Reads a person's arguments into a command as a controller would send it, as a table of arguments
 * says: what a member may be is checked in one place, the kind's own table of fields. */
#ifndef OSMEF_ARGUMENTS_H
#define OSMEF_ARGUMENTS_H

#include "json.h"

/* Says what is wrong with the arguments, and exits. */
__attribute__((format(printf, 1, 2))) _Noreturn void bad_usage(const char *format, ...);

/* The address that listens on all others. */
const char *usage_any_address(void);

enum argument_value {
    ARGUMENT_NUMBER,
    ARGUMENT_TEXT,
    ARGUMENT_TRUE, /* these take no value */
    ARGUMENT_FALSE,
    ARGUMENT_WORD /* the row's own */
};

struct argument {
    const char *name; /* "--duration" */
    const char *key;  /* the command's member: "duration_s" */
    enum argument_value value;
    const char *word;
    double low; /* of a number where people have another range than controllers */
    double high;
};

#define ARGUMENT_END                                                                               \
    {                                                                                              \
        NULL, NULL, ARGUMENT_NUMBER, NULL, 0, 0                                                    \
    }

/* Arguments of one command. */
struct argument_tables {
    const char *command;
    const struct argument *tables[2]; /* each ends with ARGUMENT_END */
    const char *operand;              /* the key of what has no name; NULL: there is none */
};

/* Reads all from argv[1] on. Says what is wrong and exits, as all of these do. */
void arguments_read(const struct argument_tables *known, int argc, char **argv,
                    struct json_object *command);

void arguments_add_text(struct json_object *command, const char *key, const char *text);
void arguments_add_number(struct json_object *command, const char *key, double number);

/* Returns the text that stands for the key, or `otherwise`. */
const char *arguments_text(const struct json_object *command, const char *key,
                           const char *otherwise);

/* Adds `host` and `port` of the first bytes of HOST:PORT, in which an IPv6 address stands in
 * brackets. Without a default (0) the port must be there. Only once in a process. */
void arguments_add_address(struct json_object *command, const char *text, size_t length,
                           int default_port);

/* Says what the kind finds wrong with the command, but by the argument's name for the key's, and
 * exits. */
_Noreturn void arguments_refuse(const struct argument_tables *known,
                                const struct json_object *command, const char *problem);

#endif
