#include "classes.h"

#include "number.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct class_lists {
    struct text_list dscp;
    struct text_list congestion_control;
} lists;

static const struct field fields[] = {
#define FIELDS_OF struct class_lists
    LIST("each_dscp", dscp),
    LIST("each_congestion_control", congestion_control),
    FIELDS_END,
#undef FIELDS_OF
};

/* Has the items point to those of the list, of which there are not too many. */
static bool get_items(struct text_list *list, const char *key, int *count,
                      char *items[LIST_ITEMS + 1], char *problem)
{
    *count = list->count;
    list_items(list, items);
    if (list->count > MAX_CLASSES)
        snprintf(problem, PROBLEM_SIZE, "%s has %d items at most", key, MAX_CLASSES);
    return list->count <= MAX_CLASSES;
}

static bool read_mark(const char *text, int *dscp)
{
    double number;
    const char *const end = number_read(text, &number);
    const bool ok = end && !*end && number >= 0 && number <= HIGHEST_DSCP && number == (int)number;
    if (ok)
        *dscp = (int)number;
    return ok;
}

bool classes_read(const struct json_object *command, struct classes *classes, char *problem)
{
    static char *items[LIST_ITEMS + 1];
    if (!fields_read(command, fields, &lists, problem) ||
        !get_items(&lists.dscp, "each_dscp", &classes->marks, items, problem))
        return false;
    for (int i = 0; i < classes->marks; i++)
        if (!read_mark(items[i], &classes->dscp[i])) {
            snprintf(problem, PROBLEM_SIZE, "each_dscp must be whole numbers from 0 to %d",
                     HIGHEST_DSCP);
            return false;
        }
    if (!get_items(&lists.congestion_control, "each_congestion_control", &classes->algorithms,
                   items, problem))
        return false;
    for (int i = 0; i < classes->algorithms; i++) {
        const size_t length = strlen(items[i]);
        if (length == 0 || length >= CONGESTION_SIZE) {
            snprintf(problem, PROBLEM_SIZE,
                     "each_congestion_control must be names of 1 to %d bytes", CONGESTION_SIZE - 1);
            return false;
        }
        memcpy(classes->congestion_control[i], items[i], length + 1);
    }
    return true;
}

bool classes_apply(struct job *job, const struct classes *classes, int fd, int number)
{
    struct socket_options own = {.dscp = 0};
    if (classes->marks)
        own.dscp = classes->dscp[number % classes->marks];
    if (classes->algorithms)
        memcpy(own.congestion_control, classes->congestion_control[number % classes->algorithms],
               CONGESTION_SIZE);
    return options_change(job, &own, fd, number);
}
