#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
#define LARGEST_SIZE 9007199254740992.0 /* 2^53 */

bool field_number(const struct json_object *command, const char *key, double low, double high,
                  double *value, char *problem)
{
    const struct json_member *member = json_find(command, key);
    if (!member || member->type != JSON_NUMBER || member->number < low || member->number > high) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a number from %.10g to %.10g", key, low, high);
        return false;
    }
    *value = member->number;
    return true;
}

bool field_number_or(const struct json_object *command, const char *key, double low, double high,
                     double otherwise, double *value, char *problem)
{
    *value = otherwise;
    return !json_find(command, key) || field_number(command, key, low, high, value, problem);
}

static bool is_whole(const char *key, double number, char *problem)
{
    if (number == floor(number))
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be a whole number", key);
    return false;
}

bool field_whole(const struct json_object *command, const char *key, int low, int high, int *value,
                 char *problem)
{
    double number;
    if (!field_number(command, key, low, high, &number, problem) || !is_whole(key, number, problem))
        return false;
    *value = (int)number;
    return true;
}

bool field_whole_or(const struct json_object *command, const char *key, int low, int high,
                    int otherwise, int *value, char *problem)
{
    *value = otherwise;
    return !json_find(command, key) || field_whole(command, key, low, high, value, problem);
}

bool field_size_or(const struct json_object *command, const char *key, uint64_t otherwise,
                   uint64_t *value, char *problem)
{
    double number;
    *value = otherwise;
    if (!json_find(command, key))
        return true;
    if (!field_number(command, key, 0, LARGEST_SIZE, &number, problem) ||
        !is_whole(key, number, problem))
        return false;
    *value = (uint64_t)number;
    return true;
}

bool field_text(const struct json_object *command, const char *key, char *text, size_t size,
                char *problem)
{
    const struct json_member *member = json_find(command, key);
    if (!member || member->type != JSON_STRING || !*member->text || strlen(member->text) >= size) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a string of 1 to %zu characters", key,
                 size - 1);
        return false;
    }
    memcpy(text, member->text, strlen(member->text) + 1);
    return true;
}

bool field_text_or(const struct json_object *command, const char *key, const char *otherwise,
                   char *text, size_t size, char *problem)
{
    snprintf(text, size, "%s", otherwise);
    return !json_find(command, key) || field_text(command, key, text, size, problem);
}

bool field_flag_or(const struct json_object *command, const char *key, bool otherwise, bool *value,
                   char *problem)
{
    const struct json_member *member = json_find(command, key);
    *value = member ? member->literal == JSON_TRUE : otherwise;
    if (!member || (member->type == JSON_LITERAL))
        return true;
    snprintf(problem, PROBLEM_SIZE, "%s must be true or false", key);
    return false;
}

bool field_word_or(const struct json_object *command, const char *key, const char *const *words,
                   int otherwise, int *value, char *problem)
{
    const struct json_member *member = json_find(command, key);
    *value = otherwise;
    if (!member && otherwise >= 0)
        return true;
    for (int i = 0; member && member->type == JSON_STRING && words[i]; i++) {
        *value = i;
        if (strcmp(words[i], member->text) == 0)
            return true;
    }
    int used = snprintf(problem, PROBLEM_SIZE, "%s must be one of", key);
    for (int i = 0; words[i] && used < PROBLEM_SIZE; i++)
        used += snprintf(problem + used, (size_t)(PROBLEM_SIZE - used), "%s %s", i ? "," : "",
                         words[i]);
    return false;
}

bool field_list_or(const struct json_object *command, const char *key, struct text_list *list,
                   char *problem)
{
    const struct json_member *member = json_find(command, key);
    list->count = 0;
    list->size = 0;
    if (!member)
        return true;
    if (member->type != JSON_LIST || member->size > LIST_SIZE || member->count > LIST_ITEMS) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a list of strings", key);
        return false;
    }
    list->count = member->count;
    list->size = member->size;
    memcpy(list->text, member->text, member->size);
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

bool field_cookie(const struct json_object *command, unsigned char cookie[COOKIE_SIZE],
                  char *problem)
{
    const struct json_member *member = json_find(command, "cookie");
    if (member && member->type == JSON_STRING && cookie_read(member->text, cookie))
        return true;
    snprintf(problem, PROBLEM_SIZE, "cookie must be a string of 32 hex digits");
    return false;
}
