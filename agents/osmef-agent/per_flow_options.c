#include "per_flow_options.h"

#include "number.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct per_flow_lists {
    struct text_list dscp;
    struct text_list congestion_control;
} lists;

static const struct field fields[] = {
#define FIELDS_OF struct per_flow_lists
    LIST("each_dscp", dscp),
    LIST("each_congestion_control", congestion_control),
    FIELDS_END,
#undef FIELDS_OF
};

/* Sets `items` to the items of the list. Returns false when there are too many. */
static bool get_items(struct text_list *list, const char *key, int *count,
                      char *items[LIST_ITEMS + 1], char *problem)
{
    *count = list->count;
    list_items(list, items);
    if (list->count > MAX_PER_FLOW_OPTIONS)
        snprintf(problem, PROBLEM_SIZE, "%s has %d items at most", key, MAX_PER_FLOW_OPTIONS);
    return list->count <= MAX_PER_FLOW_OPTIONS;
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

bool per_flow_options_read(const struct json_object *command, struct per_flow_options *options,
                           char *problem)
{
    static char *items[LIST_ITEMS + 1];
    if (!fields_read(command, fields, &lists, problem) ||
        !get_items(&lists.dscp, "each_dscp", &options->marks, items, problem))
        return false;
    for (int i = 0; i < options->marks; i++)
        if (!read_mark(items[i], &options->dscp[i])) {
            snprintf(problem, PROBLEM_SIZE, "each_dscp must be whole numbers from 0 to %d",
                     HIGHEST_DSCP);
            return false;
        }
    if (!get_items(&lists.congestion_control, "each_congestion_control", &options->algorithms,
                   items, problem))
        return false;
    for (int i = 0; i < options->algorithms; i++) {
        const size_t length = strlen(items[i]);
        if (length == 0 || length >= CONGESTION_SIZE) {
            snprintf(problem, PROBLEM_SIZE,
                     "each_congestion_control must be names of 1 to %d bytes", CONGESTION_SIZE - 1);
            return false;
        }
        memcpy(options->congestion_control[i], items[i], length + 1);
    }
    return true;
}

bool per_flow_options_apply(struct job *job, const struct per_flow_options *options, int fd,
                            int number)
{
    struct socket_options own = {.dscp = 0};
    if (options->marks)
        own.dscp = options->dscp[number % options->marks];
    if (options->algorithms)
        memcpy(own.congestion_control, options->congestion_control[number % options->algorithms],
               CONGESTION_SIZE);
    return options_change(job, &own, fd, number);
}
