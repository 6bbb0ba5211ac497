/* Reads the members of a command. Each function returns false and says in `problem` what is wrong;
 * the `_or` variants take an optional member. */
#ifndef OSMEF_FIELDS_H
#define OSMEF_FIELDS_H

#include "json.h"
#include "opening.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_SIZE 65
#define PROBLEM_SIZE 160
#define LONGEST_S 1e6
#define SHORTEST_S 0.01
/* More than a command holds. */
#define LIST_SIZE (16 * 1024)
#define LIST_ITEMS (LIST_SIZE / 3)

/* Strings one behind the other, each with its 0. */
struct text_list {
    int count;
    size_t size;
    char text[LIST_SIZE];
};

bool field_number(const struct json_object *command, const char *key, double low, double high,
                  double *value, char *problem);
bool field_number_or(const struct json_object *command, const char *key, double low, double high,
                     double otherwise, double *value, char *problem);
bool field_whole(const struct json_object *command, const char *key, int low, int high, int *value,
                 char *problem);
bool field_whole_or(const struct json_object *command, const char *key, int low, int high,
                    int otherwise, int *value, char *problem);
/* Byte counts: whole numbers up to 2^53, which a JSON number holds exactly. */
bool field_size_or(const struct json_object *command, const char *key, uint64_t otherwise,
                   uint64_t *value, char *problem);
bool field_text(const struct json_object *command, const char *key, char *text, size_t size,
                char *problem);
bool field_text_or(const struct json_object *command, const char *key, const char *otherwise,
                   char *text, size_t size, char *problem);
bool field_flag_or(const struct json_object *command, const char *key, bool otherwise, bool *value,
                   char *problem);
/* One of the words, of which the last is NULL; its index. Without `otherwise` (-1) it must be
 * there.
 */
bool field_word_or(const struct json_object *command, const char *key, const char *const *words,
                   int otherwise, int *value, char *problem);

/* A list of strings; none where the member is missing. */
bool field_list_or(const struct json_object *command, const char *key, struct text_list *list,
                   char *problem);
/* Has the items point to the strings, with NULL behind them. */
void list_items(struct text_list *list, char *items[LIST_ITEMS + 1]);

/* A job's id: 1 to 64 letters, digits and . _ : - */
bool field_id(const struct json_object *command, char id[ID_SIZE]);

bool field_cookie(const struct json_object *command, unsigned char cookie[COOKIE_SIZE],
                  char *problem);

/* Reads 32 hex digits. */
bool cookie_read(const char *text, unsigned char cookie[COOKIE_SIZE]);

#endif
