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

/* Reads four hex digits. Returns -1 when they are invalid. */
static int take_code(struct cursor *c)
{
    int code = 0;
    if (c->end - c->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_value(*c->at++);
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* Writes a Unicode character. Returns its number of bytes. */
static int write_utf8(int code, char *out)
{
    static const int first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const int size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[size] | code);
    return size;
}

/* Decodes the digits after \u: a character, a surrogate pair, or a byte that is not UTF-8. */
static int unescape_unicode(struct cursor *c, char *out)
{
    const int code = take_code(c);
    if (code <= 0)
        return 0;
    if (code < 0xd800 || code > 0xdfff)
        return write_utf8(code, out);
    if (0xdc80 <= code && code <= 0xdcff) {
        *out = (char)(code & 0xff);
        return 1;
    }
    if (code >= 0xdc00 || c->end - c->at < 2 || c->at[0] != '\\' || c->at[1] != 'u')
        return 0;
    c->at += 2;
    const int low = take_code(c);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    return write_utf8(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), out);
}

/* Decodes the escape after a backslash. Returns the number of bytes, which is less than the escape
 * had; 0: it is invalid. */
static int unescape(struct cursor *c, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (c->at >= c->end)
        return 0;
    const char kind = *c->at++;
    const char *found = kind ? strchr(from, kind) : NULL;
    if (!found)
        return kind == 'u' ? unescape_unicode(c, out) : 0;
    *out = to[found - from];
    return 1;
}

/* Decodes the rest of a string, after its quote, to `*out`, and advances `*out` past its end.
 * `*out` may be anywhere before the quote, since a decoded string is never longer. */
static const char *decode_string(struct cursor *c, char **out)
{
    char *at = *out;
    while (c->at < c->end && *c->at != '"') {
        const char next = *c->at++;
        if ((unsigned char)next < 0x20)
            return "a string holds a control character";
        if (next != '\\') {
            *at++ = next;
            continue;
        }
        const int size = unescape(c, at);
        if (!size)
            return "a string holds an escape that is not allowed";
        at += size;
    }
    if (c->at >= c->end)
        return "a string has no end";
    c->at++;
    *at++ = '\0';
    *out = at;
    return NULL;
}

static const char *parse_string(struct cursor *c, const char **text)
{
    if (!take(c, '"'))
        return "a string is expected";
    char *out = c->at;
    *text = out;
    return decode_string(c, &out);
}

static const char *parse_list(struct cursor *c, struct json_member *member)
{
    char *out = c->at;
    member->type = JSON_LIST;
    member->text = out;
    member->size = 0;
    member->count = 0;
    if (!take(c, '[') || take(c, ']'))
        return NULL;
    do {
        if (!take(c, '"'))
            return "a list holds strings only";
        const char *problem = decode_string(c, &out);
        if (problem)
            return problem;
        member->count++;
    } while (take(c, ','));
    member->size = (size_t)(out - member->text);
    return take(c, ']') ? NULL : "a comma or the list's end is expected";
}

static const char *parse_value(struct cursor *c, struct json_member *member)
{
    static const char *const literals[] = {"true", "false", "null"};
    skip_space(c);
    if (c->at < c->end && *c->at == '"') {
        member->type = JSON_STRING;
        return parse_string(c, &member->text);
    }
    if (c->at < c->end && *c->at == '[')
        return parse_list(c, member);
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
        return "a value is neither string, number, list, true, false nor null";
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
