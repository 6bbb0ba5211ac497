#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

static bool read_number(const struct field *field, const struct json_member *member, double *number,
                        char *problem)
{
    *number = member ? member->number : field->otherwise;
    if (!member && !isnan(field->otherwise))
        return true;
    if (!member || member->type != JSON_NUMBER || *number < field->low || *number > field->high) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a number from %.10g to %.10g", field->key,
                 field->low, field->high);
        return false;
    }
    if (field->type == FIELD_NUMBER || *number == floor(*number))
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be a whole number", field->key);
    return false;
}

static bool read_text(const struct field *field, const struct json_member *member, char *text,
                      char *problem)
{
    const bool given = member && member->type == JSON_STRING && *member->text;
    if (given && strlen(member->text) < field->size) {
        memcpy(text, member->text, strlen(member->text) + 1);
        return true;
    }
    if (!member && field->as.text) {
        snprintf(text, field->size, "%s", field->as.text);
        return true;
    }
    snprintf(problem, PROBLEM_SIZE, "%s must be a string of 1 to %zu characters", field->key,
             (size_t)field->size - 1);
    return false;
}

static bool read_flag(const struct field *field, const struct json_member *member, bool *flag,
                      char *problem)
{
    *flag = member ? member->literal == JSON_TRUE : field->otherwise > 0;
    if (!member || member->type == JSON_LITERAL)
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be true or false", field->key);
    return false;
}

static bool read_word(const struct field *field, const struct json_member *member, int *index,
                      char *problem)
{
    if (!member && !isnan(field->otherwise)) {
        *index = (int)field->otherwise;
        return true;
    }
    for (*index = 0; field->as.words[*index]; ++*index)
        if (member && member->type == JSON_STRING &&
            strcmp(field->as.words[*index], member->text) == 0)
            return true;
    int used = snprintf(problem, PROBLEM_SIZE, "%s must be one of", field->key);
    for (int i = 0; field->as.words[i] && used < PROBLEM_SIZE; i++)
        used += snprintf(problem + used, (size_t)(PROBLEM_SIZE - used), "%s %s", i ? "," : "",
                         field->as.words[i]);
    return false;
}

static bool read_list(const struct field *field, const struct json_member *member,
                      struct text_list *list, char *problem)
{
    list->count = 0;
    list->size = 0;
    if (!member)
        return true;
    if (member->type != JSON_LIST || member->size > LIST_SIZE || member->count > LIST_ITEMS) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a list of strings", field->key);
        return false;
    }
    list->count = member->count;
    list->size = member->size;
    memcpy(list->text, member->text, member->size);
    return true;
}

static bool read_cookie(const struct field *field, const struct json_member *member,
                        unsigned char *cookie, char *problem)
{
    if (member && member->type == JSON_STRING && cookie_read(member->text, cookie))
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be a string of 32 hex digits", field->key);
    return false;
}

static bool read_field(const struct field *field, const struct json_member *member, void *value,
                       char *problem)
{
    double number = 0;
    switch (field->type) {
    case FIELD_TEXT:
        return read_text(field, member, value, problem);
    case FIELD_FLAG:
        return read_flag(field, member, value, problem);
    case FIELD_WORD:
        return read_word(field, member, value, problem);
    case FIELD_LIST:
        return read_list(field, member, value, problem);
    case FIELD_COOKIE:
        return read_cookie(field, member, value, problem);
    default:
        if (!read_number(field, member, &number, problem))
            return false;
    }
    if (field->type == FIELD_NUMBER)
        *(double *)value = number;
    else if (field->type == FIELD_WHOLE)
        *(int *)value = (int)number;
    else
        *(uint64_t *)value = (uint64_t)number;
    return true;
}

bool fields_read(const struct json_object *command, const struct field *table, void *values,
                 char *problem)
{
    for (const struct field *field = table; field->key; field++)
        if (!read_field(field, json_find(command, field->key), (char *)values + field->at, problem))
            return false;
    return true;
}

void list_items(struct text_list *list, char *items[LIST_ITEMS + 1])
{
    char *at = list->text;
    for (int i = 0; i < list->count; i++, at += strlen(at) + 1)
        items[i] = at;
    items[list->count] = NULL;
}

bool field_id(const struct json_object *command, char id[ID_SIZE])
{
    const struct json_member *member = json_find(command, "id");
    if (!member || member->type != JSON_STRING)
        return false;
    const size_t length = strlen(member->text);
    if (length == 0 || length >= ID_SIZE || strspn(member->text, ID_CHARACTERS) != length)
        return false;
    memcpy(id, member->text, length + 1);
    return true;
}

bool cookie_read(const char *text, unsigned char cookie[COOKIE_SIZE])
{
    if (strlen(text) != 2 * COOKIE_SIZE ||
        strspn(text, "0123456789abcdefABCDEF") != 2 * COOKIE_SIZE)
        return false;
    for (size_t i = 0; i < COOKIE_SIZE; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        cookie[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return true;
}
