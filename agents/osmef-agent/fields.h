/* Reads the members of a command into a struct, by a table of fields. */
#ifndef OSMEF_FIELDS_H
#define OSMEF_FIELDS_H

#include "handshake.h"
#include "json.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_SIZE 65
#define PROBLEM_SIZE 160
#define LONGEST_S 1e6
#define SHORTEST_S 0.01
#define LARGEST_SIZE 9007199254740992.0 /* 2^53, which a JSON number holds exactly */
/* More than a command can contain. */
#define LIST_SIZE (16 * 1024)
#define LIST_ITEMS (LIST_SIZE / 3)

/* Strings in succession, each with a terminating 0. */
struct text_list {
    int count;
    size_t size;
    char text[LIST_SIZE];
};

enum field_type {
    FIELD_NUMBER, /* double */
    FIELD_WHOLE,  /* int */
    FIELD_SIZE,   /* uint64_t */
    FIELD_TEXT,   /* array of char */
    FIELD_FLAG,   /* bool */
    FIELD_WORD,   /* int or enum: the index of one of the words */
    FIELD_LIST,   /* struct text_list */
    FIELD_COOKIE  /* COOKIE_SIZE bytes */
};

struct field {
    const char *key; /* ends with its unit, as in duration_s */
    uint32_t at;
    uint16_t size;
    uint8_t type; /* enum field_type */
    double low;
    double high;
    double otherwise; /* the default; NEEDED: the member is required */
    union {
        const char *const *words; /* end with NULL */
        const char *text;         /* the default; NULL: the member is required */
    } as;
};

/* Rows of a table, which ends with FIELDS_END. FIELDS_OF is the struct, which the file with the
 * table defines. */
#define NEEDED NAN
#define FIELD_AT(member) offsetof(FIELDS_OF, member), sizeof(((FIELDS_OF *)0)->member)
#define NUMBER(key, member, low, high, otherwise)                                                  \
    {key, FIELD_AT(member), FIELD_NUMBER, low, high, otherwise, {NULL}}
#define WHOLE(key, member, low, high, otherwise)                                                   \
    {key, FIELD_AT(member), FIELD_WHOLE, low, high, otherwise, {NULL}}
#define SIZE(key, member, low, high, otherwise)                                                    \
    {key, FIELD_AT(member), FIELD_SIZE, low, high, otherwise, {NULL}}
#define TEXT(key, member) {key, FIELD_AT(member), FIELD_TEXT, 0, 0, NEEDED, {NULL}}
#define TEXT_OR(key, member, otherwise)                                                            \
    {key, FIELD_AT(member), FIELD_TEXT, 0, 0, 0, {.text = otherwise}}
#define FLAG(key, member, otherwise)                                                               \
    {key, FIELD_AT(member), FIELD_FLAG, 0, 0, otherwise, {NULL}}
#define WORD(key, member, choice, otherwise)                                                        \
    {key, FIELD_AT(member), FIELD_WORD, 0, 0, otherwise, {choice}}
#define LIST(key, member) {key, FIELD_AT(member), FIELD_LIST, 0, 0, 0, {NULL}}
#define COOKIE(key, member) {key, FIELD_AT(member), FIELD_COOKIE, 0, 0, NEEDED, {NULL}}
#define FIELDS_END {NULL, 0, 0, FIELD_NUMBER, 0, 0, 0, {NULL}}

/* Reads all fields of the table. Returns false with the first that is invalid in `problem`. */
bool fields_read(const struct json_object *command, const struct field *table, void *values,
                 char *problem);

/* Sets `items` to the strings, followed by NULL. */
void list_items(struct text_list *list, char *items[LIST_ITEMS + 1]);

/* A job's id: 1 to 64 letters, digits and . _ : - */
bool field_id(const struct json_object *command, char id[ID_SIZE]);

/* Reads 32 hex digits. */
bool cookie_read(const char *text, unsigned char cookie[COOKIE_SIZE]);

#endif
