#include "params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
#define LONGEST_S 1e6

static bool read_number(const struct json_object *command, const char *key, double low, double high,
                        double *value, char *problem)
{
    const struct json_member *member = json_find(command, key);
    if (!member || member->type != JSON_NUMBER || member->number < low || member->number > high) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a number from %g to %g", key, low, high);
        return false;
    }
    *value = member->number;
    return true;
}

static bool read_whole(const struct json_object *command, const char *key, int low, int high,
                       int *value, char *problem)
{
    double number;
    if (!read_number(command, key, low, high, &number, problem))
        return false;
    if (number != floor(number)) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a whole number", key);
        return false;
    }
    *value = (int)number;
    return true;
}

static bool read_host(const struct json_object *command, const char *key, char *host, char *problem)
{
    const struct json_member *member = json_find(command, key);
    if (!member || member->type != JSON_STRING || !*member->text ||
        strlen(member->text) >= HOST_SIZE) {
        snprintf(problem, PROBLEM_SIZE, "%s must be a numeric address in a string", key);
        return false;
    }
    memcpy(host, member->text, strlen(member->text) + 1);
    return true;
}

bool params_read_id(const struct json_object *command, char id[ID_SIZE])
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

bool params_read_cookie(const char *text, unsigned char cookie[COOKIE_SIZE])
{
    if (strlen(text) != 2 * COOKIE_SIZE ||
        strspn(text, "0123456789abcdefABCDEF") != 2 * COOKIE_SIZE)
        return false;
    for (size_t i = 0; i < COOKIE_SIZE; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        cookie[i] = (unsigned char)byte;
    }
    return true;
}

bool params_read(const struct json_object *command, enum role role, struct params *params,
                 char problem[PROBLEM_SIZE])
{
    *params = (struct params){.role = role};
    if (!params_read_id(command, params->id)) {
        snprintf(problem, PROBLEM_SIZE,
                 "id must be a string of 1 to 64 letters, digits and . _ : -");
        return false;
    }
    const struct json_member *cookie = json_find(command, "cookie");
    if (!cookie || cookie->type != JSON_STRING ||
        !params_read_cookie(cookie->text, params->cookie)) {
        snprintf(problem, PROBLEM_SIZE, "cookie must be a string of 32 hex digits");
        return false;
    }
    return read_host(command, role == SENDER ? "host" : "bind", params->host, problem) &&
           read_whole(command, "port", role == SENDER, 65535, &params->port, problem) &&
           read_whole(command, "flows", 1, MAX_FLOWS, &params->flows, problem) &&
           read_number(command, "duration_s", 0.01, LONGEST_S, &params->duration_s, problem) &&
           read_number(command, "interval_s", 0.01, LONGEST_S, &params->interval_s, problem) &&
           read_number(command, "arm_timeout_s", 0.01, LONGEST_S, &params->arm_timeout_s,
                       problem) &&
           read_number(command, "stall_timeout_s", 0.01, LONGEST_S, &params->stall_timeout_s,
                       problem);
}
