#include "byhand.h"

#include "bulk.h"
#include "bulk_events.h"
#include "events.h"
#include "lines.h"
#include "usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 5210
#define TIMEOUT_S 15

struct options {
    struct bulk_params params;
    bool json;
};

static int whole_of(const char *option, const char *text, int low, int high)
{
    const double value = usage_number(option, text, low, high);
    if (value != (int)value)
        bad_usage("%s is %s, but must be a whole number", option, text);
    return (int)value;
}

/* A file, since arguments can be seen by everybody on the machine. */
static void read_cookie(const char *path, unsigned char cookie[COOKIE_SIZE])
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        bad_usage("can't read the cookie file %s: %s", path, strerror(errno));
    if (fgets(text, sizeof text, file))
        text[strcspn(text, "\r\n")] = '\0';
    fclose(file);
    if (!cookie_read(text, cookie))
        bad_usage("the cookie file %s must begin with a line of 32 hex digits", path);
}

static void set_host(struct bulk_params *params, const char *host)
{
    if (!*host || strlen(host) >= HOST_SIZE)
        bad_usage("%s is not an address", host);
    memcpy(params->link.host, host, strlen(host) + 1);
}

static void set_option(struct bulk_params *params, const char *option, const char *value)
{
    const bool sender = !params->link.listens;
    if (strcmp(option, "--port") == 0)
        params->link.port = whole_of(option, value, 1, 65535);
    else if (strcmp(option, "--interval") == 0)
        params->interval_s = usage_number(option, value, 0.01, 86400);
    else if (strcmp(option, "--cookie-file") == 0)
        read_cookie(value, params->link.opening.cookie);
    else if (!sender && strcmp(option, "--bind") == 0)
        set_host(params, value);
    else if (sender && strcmp(option, "--flows") == 0)
        params->link.opening.flows = whole_of(option, value, 1, MAX_FLOWS);
    else if (sender && strcmp(option, "--duration") == 0)
        params->duration_s = usage_number(option, value, 0.1, 86400);
    else
        bad_usage("%s has no option %s", sender ? "send" : "recv", option);
}

static void read_options(int argc, char **argv, struct options *options)
{
    struct bulk_params *params = &options->params;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            options->json = true;
        else if (argv[i][0] == '-' && i + 1 < argc)
            set_option(params, argv[i], argv[i + 1]), i++;
        else if (argv[i][0] == '-')
            bad_usage("%s is unknown or lacks its value", argv[i]);
        else if (!params->link.listens && !params->link.host[0])
            set_host(params, argv[i]);
        else
            bad_usage("what is %s?", argv[i]);
    }
    if (!params->link.host[0])
        bad_usage("send needs the receiver's HOST");
}

int by_hand(int argc, char **argv)
{
    static struct control control;
    control.in = -1;
    control.start = true;
    struct options options = {
        .params = {.link = {.opening = {.kind = OPENING_BULK},
                            .port = DEFAULT_PORT,
                            .arm_timeout_s = TIMEOUT_S,
                            .stall_timeout_s = TIMEOUT_S},
                   .interval_s = 1},
    };
    struct bulk_params *params = &options.params;
    if (strcmp(argv[0], "send") == 0) {
        params->link.opening.flows = 1;
        params->duration_s = 10;
    } else {
        params->link.listens = true;
        set_host(params, usage_any_address());
    }
    read_options(argc, argv, &options);

    struct job job = {.id = "by-hand",
                      .kind = &bulk_kind,
                      .control = &control,
                      .report = options.json ? &event_report : &line_report,
                      .by_hand = true};
    const struct bulk *done =
        bulk_run(&job, params, options.json ? &bulk_event_view : &bulk_line_view);
    if (!done)
        job.report->failed(&job);
    else if (options.json)
        event_result(&job);
    else
        bulk_print_result(done);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
