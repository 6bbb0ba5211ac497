#include "arguments.h"

#include "link.h"
#include "number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BAD_USAGE 2
/* A range that includes those of all members. */
#define ANY_NUMBER 1e16

_Noreturn void bad_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("osmef-agent: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n  cure: osmef-agent --help lists the options\n", stderr);
    va_end(arguments);
    exit(BAD_USAGE);
}

static double usage_number(const char *option, const char *text, double low, double high)
{
    double value;
    const char *const end = number_read(text, &value);
    if (!end || *end || !(value >= low && value <= high))
        bad_usage("%s is %s, but must be a number from %g to %g", option, text, low, high);
    return value;
}

/* An IPv6 socket also accepts IPv4, but some kernels have no IPv6. */
const char *usage_any_address(void)
{
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return "0.0.0.0";
    close(fd);
    return "::";
}

static struct json_member *add(struct json_object *command, const char *key)
{
    struct json_member *member = &command->members[command->count++];
    *member = (struct json_member){.key = key};
    return member;
}

void arguments_add_text(struct json_object *command, const char *key, const char *text)
{
    struct json_member *member = add(command, key);
    member->type = JSON_STRING;
    member->text = text;
}

void arguments_add_number(struct json_object *command, const char *key, double number)
{
    struct json_member *member = add(command, key);
    member->type = JSON_NUMBER;
    member->number = number;
}

const char *arguments_text(const struct json_object *command, const char *key,
                           const char *otherwise)
{
    const struct json_member *member = json_find(command, key);
    return member && member->text ? member->text : otherwise;
}

static const struct argument *find(const struct argument_tables *known, const char *name)
{
    for (size_t i = 0; i < sizeof known->tables / sizeof *known->tables; i++)
        for (const struct argument *argument = known->tables[i]; argument->name; argument++)
            if (strcmp(argument->name, name) == 0)
                return argument;
    bad_usage("%s has no option %s", known->command, name);
}

static void add_argument(struct json_object *command, const struct argument *argument,
                         const char *text)
{
    const bool ranged = argument->low < argument->high;
    if (json_find(command, argument->key))
        bad_usage("%s is given twice, or contradicts another option", argument->name);
    if (argument->value == ARGUMENT_TEXT || argument->value == ARGUMENT_WORD) {
        arguments_add_text(command, argument->key, text);
    } else if (argument->value == ARGUMENT_NUMBER) {
        arguments_add_number(command, argument->key,
                             usage_number(argument->name, text,
                                          ranged ? argument->low : -ANY_NUMBER,
                                          ranged ? argument->high : ANY_NUMBER));
        command->members[command->count - 1].text = text;
    } else {
        struct json_member *member = add(command, argument->key);
        member->type = JSON_LITERAL;
        member->literal = argument->value == ARGUMENT_TRUE ? JSON_TRUE : JSON_FALSE;
    }
}

void arguments_read(const struct argument_tables *known, int argc, char **argv,
                    struct json_object *command)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (!known->operand || json_find(command, known->operand))
                bad_usage("what is %s?", argv[i]);
            arguments_add_text(command, known->operand, argv[i]);
            continue;
        }
        const struct argument *argument = find(known, argv[i]);
        const char *text = argument->word;
        if (argument->value == ARGUMENT_NUMBER || argument->value == ARGUMENT_TEXT) {
            text = argv[++i];
            if (!text)
                bad_usage("%s lacks its value", argument->name);
        }
        add_argument(command, argument, text);
    }
}

void arguments_add_address(struct json_object *command, const char *text, size_t length,
                           int default_port)
{
    static char copy[HOST_SIZE + sizeof "[]:65535"];
    if (length >= sizeof copy)
        bad_usage("%s is not an address", text);
    memcpy(copy, text, length);
    char *const end = *copy == '[' ? strchr(copy, ']') : NULL;
    char *const colon = strrchr(end ? end : copy, ':');
    if (!colon && !default_port)
        bad_usage("%s must be HOST:PORT", copy);
    arguments_add_number(command, "port",
                         colon ? usage_number("the port", colon + 1, 1, 65535) : default_port);
    if (colon)
        *colon = '\0';
    if (end)
        *end = '\0';
    arguments_add_text(command, "host", end ? copy + 1 : copy);
}

void arguments_refuse(const struct argument_tables *known, const struct json_object *command,
                      const char *problem)
{
    const size_t length = strcspn(problem, " ");
    const char *const rest = problem + length;
    for (size_t i = 0; i < sizeof known->tables / sizeof *known->tables; i++)
        for (const struct argument *argument = known->tables[i]; argument->name; argument++) {
            const char *const text = arguments_text(command, argument->key, NULL);
            if (strncmp(argument->key, problem, length) != 0 || argument->key[length])
                continue;
            if (text && strncmp(rest, " must ", 6) == 0)
                bad_usage("%s is %s, but%s", argument->name, text, rest);
            bad_usage("%s%s", argument->name, rest);
        }
    bad_usage("%s", problem);
}
