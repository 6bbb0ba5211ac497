/* What a job is to do, whoever says so. */
#ifndef OSMEF_PARAMS_H
#define OSMEF_PARAMS_H

#include "json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_FLOWS 128
#define COOKIE_SIZE 16
#define ID_SIZE 65
#define HOST_SIZE 256

enum role { SENDER, RECEIVER };

struct params {
    enum role role;
    char id[ID_SIZE];
    char host[HOST_SIZE]; /* the receiver's address, at either end */
    bool by_hand; /* host may be a name; a receiver waits for ever and asks the sender how much */
    int port;
    unsigned char cookie[COOKIE_SIZE];
    int flows;
    double duration_s;
    double interval_s;
    double arm_timeout_s;
    double stall_timeout_s;
};

#define PROBLEM_SIZE 160

/* Reads a recv or send command. Returns false and says in `problem` what is wrong with it. */
bool params_read(const struct json_object *command, enum role role, struct params *params,
                 char problem[PROBLEM_SIZE]);

/* Reads a job's id: 1 to 64 letters, digits and . _ : - */
bool params_read_id(const struct json_object *command, char id[ID_SIZE]);

/* Reads 32 hex digits. */
bool params_read_cookie(const char *text, unsigned char cookie[COOKIE_SIZE]);

#endif
