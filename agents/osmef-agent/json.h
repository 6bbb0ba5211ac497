/* A parser for one flat JSON object. Commands of the protocol contain no nested values but lists of
 * strings. */
#ifndef OSMEF_JSON_H
#define OSMEF_JSON_H

#include <stddef.h>

#define JSON_MAX_MEMBERS 48

enum json_type { JSON_STRING, JSON_NUMBER, JSON_LITERAL, JSON_LIST };
enum json_literal { JSON_TRUE, JSON_FALSE, JSON_NULL };

struct json_member {
    const char *key;
    enum json_type type;
    const char *text; /* of a string; of a list: its strings in succession, each ending with 0 */
    size_t size;      /* lists only: size of this text */
    int count;        /* lists only: number of strings */
    double number;    /* numbers only */
    enum json_literal literal;
};

struct json_object {
    int count;
    struct json_member members[JSON_MAX_MEMBERS];
};

/* Parses `length` bytes in place; `text[length]` must be writable. The members point into the text.
 * Returns NULL, or what is wrong. Strings are UTF-8, or any other bytes but 0: bytes from 0x80 on
 * that are not UTF-8 are encoded as \udc80 to \udcff (Python's PEP 383). */
const char *json_parse(char *text, size_t length, struct json_object *object);

/* Returns the member with this key, or NULL, also when its value is null. */
const struct json_member *json_find(const struct json_object *object, const char *key);

#endif
