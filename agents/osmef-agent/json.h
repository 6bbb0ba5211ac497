/* A reader for one flat JSON object: the commands of the protocol have no nested values. */
#ifndef OSMEF_JSON_H
#define OSMEF_JSON_H

#include <stddef.h>

#define JSON_MAX_MEMBERS 48

enum json_type { JSON_STRING, JSON_NUMBER, JSON_LITERAL };
enum json_literal { JSON_TRUE, JSON_FALSE, JSON_NULL };

struct json_member {
    const char *key;
    enum json_type type;
    const char *text; /* strings only */
    double number;    /* numbers only */
    enum json_literal literal;
};

struct json_object {
    int count;
    struct json_member members[JSON_MAX_MEMBERS];
};

/* Parses `length` bytes in place; `text[length]` must be writable. The members point into the
 * text. Returns NULL, or what is wrong. */
const char *json_parse(char *text, size_t length, struct json_object *object);

/* Returns the member of that key, or NULL; null is as good as none. */
const struct json_member *json_find(const struct json_object *object, const char *key);

#endif
