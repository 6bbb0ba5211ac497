#include "json.h"

#include "number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct cursor {
    char *at;
    const char *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at)
        c->at++;
}

static int take(struct cursor *c, char wanted)
{
    skip_space(c);
    if (c->at >= c->end || *c->at != wanted)
        return 0;
    c->at++;
    return 1;
}

static int hex_value(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found =
        digit ? strchr(digits, digit | ('A' <= digit && digit <= 'F' ? 32 : 0)) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Decodes the escape behind a backslash. No value of the protocol goes beyond ASCII, so other
 * characters become a question mark, and 0 says that the escape is wrong. */
static char unescape(struct cursor *c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (c->at >= c->end)
        return 0;
    const char kind = *c->at++;
    const char *found = kind ? strchr(from, kind) : NULL;
    if (found)
        return to[found - from];
    if (kind != 'u' || c->end - c->at < 4)
        return 0;
    int code = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_value(*c->at++);
        if (digit < 0)
            return 0;
        code = code * 16 + digit;
    }
    return code < 128 ? (char)code : '?';
}

/* Decodes in place, since a decoded string is never longer. */
static const char *parse_string(struct cursor *c, const char **text)
{
    if (!take(c, '"'))
        return "a string is expected";
    char *out = c->at;
    *text = out;
    while (c->at < c->end && *c->at != '"') {
        char next = *c->at++;
        if ((unsigned char)next < 0x20)
            return "a string holds a control character";
        if (next == '\\' && !(next = unescape(c)))
            return "a string holds an escape that is not allowed";
        *out++ = next;
    }
    if (c->at >= c->end)
        return "a string has no end";
    c->at++;
    *out = '\0';
    return NULL;
}

static const char *parse_value(struct cursor *c, struct json_member *member)
{
    static const char *const literals[] = {"true", "false", "null"};
    skip_space(c);
    if (c->at < c->end && *c->at == '"') {
        member->type = JSON_STRING;
        return parse_string(c, &member->text);
    }
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        if (strncmp(c->at, literals[i], strlen(literals[i])) == 0) {
            member->type = JSON_LITERAL;
            member->literal = (enum json_literal)i;
            c->at += strlen(literals[i]);
            return NULL;
        }
    }
    const char *const end = number_read(c->at, &member->number);
    if (!end)
        return "a value is neither string, number, true, false nor null";
    member->type = JSON_NUMBER;
    c->at += end - c->at;
    return isfinite(member->number) ? NULL : "a number is too large";
}

static const char *parse_member(struct cursor *c, struct json_object *object)
{
    if (object->count == JSON_MAX_MEMBERS)
        return "the object has too many members";
    struct json_member *member = &object->members[object->count];
    const char *problem = parse_string(c, &member->key);
    if (problem)
        return problem;
    if (!take(c, ':'))
        return "a colon is expected behind a key";
    problem = parse_value(c, member);
    object->count++;
    return problem;
}

const char *json_parse(char *text, size_t length, struct json_object *object)
{
    struct cursor c = {text, text + length};
    text[length] = '\0';
    object->count = 0;
    if (!take(&c, '{'))
        return "a command is one JSON object";
    if (!take(&c, '}')) {
        do {
            skip_space(&c);
            const char *problem = parse_member(&c, object);
            if (problem)
                return problem;
        } while (take(&c, ','));
        if (!take(&c, '}'))
            return "a comma or the object's end is expected";
    }
    skip_space(&c);
    return c.at == c.end ? NULL : "something follows the object";
}

static bool is_null(const struct json_member *member)
{
    return member->type == JSON_LITERAL && member->literal == JSON_NULL;
}

const struct json_member *json_find(const struct json_object *object, const char *key)
{
    for (int i = 0; i < object->count; i++)
        if (strcmp(object->members[i].key, key) == 0)
            return is_null(&object->members[i]) ? NULL : &object->members[i];
    return NULL;
}
