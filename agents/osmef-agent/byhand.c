#include "byhand.h"

#include "bulk.h"
#include "bulk_events.h"
#include "events.h"
#include "lines.h"
#include "usage.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define DEFAULT_PORT 5210
#define TIMEOUT_S 15
#define DEFAULT_DURATION_S 10
#define DAY_S 86400

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

static void set_direction(struct options *o, const char *option, const char *value)
{
    (void)value;
    o->params.link.opening.direction = option[2] == 'r' ? REVERSE : BOTH;
}

static void set_family(struct options *o, const char *option, const char *value)
{
    (void)value;
    o->params.link.family = option[1] == '6' ? AF_INET6 : AF_INET;
}

static void set_cookie(struct options *o, const char *option, const char *value)
{
    (void)option;
    read_cookie(value, o->params.link.opening.cookie);
}

static void set_bind(struct options *o, const char *option, const char *value)
{
    (void)option;
    set_host(&o->params, value);
}

static void set_bytes(struct options *o, const char *option, const char *value)
{
    const double bytes = usage_number(option, value, 1, 1e15);
    o->params.link.opening.bytes = (uint64_t)bytes;
    if ((double)o->params.link.opening.bytes != bytes)
        bad_usage("%s is %s, but must be a whole number", option, value);
}

static void set_cpus(struct options *o, const char *option, const char *value)
{
    if (!pins_read(value, &o->params.pins))
        bad_usage("%s is %s, but must be a list like 0,2,5", option, value);
}

static void set_mode(struct options *o, const char *option, const char *value)
{
    for (int i = 0; bulk_modes[i]; i++) {
        o->params.mode = i;
        if (strcmp(bulk_modes[i], value) == 0)
            return;
    }
    bad_usage("%s is %s, but must be copy, zerocopy, discard or zerocopy-discard", option, value);
}

static void set_congestion_control(struct options *o, const char *option, const char *value)
{
    char *name = o->params.link.options.congestion_control;
    if (!*value || strlen(value) >= CONGESTION_SIZE)
        bad_usage("%s is %s, but must be a name of at most %d letters", option, value,
                  CONGESTION_SIZE - 1);
    memcpy(name, value, strlen(value) + 1);
}

enum { SEND_HAS = 1, RECV_HAS = 2, ALL_HAVE = 3 };
enum { FLAG, WHOLE, NUMBER, TEXT, PLAIN }; /* the last two by a function; PLAIN: no value */

static const struct hand_option {
    const char *name;
    unsigned char who;
    unsigned char shape;
    unsigned short offset; /* in struct options: of a bool, an int or a double */
    double low;
    double high;
    void (*set)(struct options *options, const char *option, const char *value);
} hand_options[] = {
#define AT(member) offsetof(struct options, member)
    {"--port", ALL_HAVE, WHOLE, AT(params.link.port), 1, 65535, NULL},
    {"--interval", ALL_HAVE, NUMBER, AT(params.interval_s), SHORTEST_S, DAY_S, NULL},
    {"--cookie-file", ALL_HAVE, TEXT, 0, 0, 0, set_cookie},
    {"--json", ALL_HAVE, FLAG, AT(json), 0, 0, NULL},
    {"--bind", RECV_HAS, TEXT, 0, 0, 0, set_bind},
    {"--flows", SEND_HAS, WHOLE, AT(params.link.opening.flows), 1, MAX_FLOWS, NULL},
    {"--duration", SEND_HAS, NUMBER, AT(params.duration_s), 0.1, DAY_S, NULL},
    {"--bytes", SEND_HAS, TEXT, 0, 0, 0, set_bytes},
    {"--warmup", SEND_HAS, NUMBER, AT(params.warmup_s), 0, DAY_S, NULL},
    {"--reverse", SEND_HAS, PLAIN, 0, 0, 0, set_direction},
    {"--both", SEND_HAS, PLAIN, 0, 0, 0, set_direction},
    {"-4", SEND_HAS, PLAIN, 0, 0, 0, set_family},
    {"-6", SEND_HAS, PLAIN, 0, 0, 0, set_family},
    {"--active", ALL_HAVE, NUMBER, AT(params.active_s), SHORTEST_S, DAY_S, NULL},
    {"--idle", ALL_HAVE, NUMBER, AT(params.idle_s), SHORTEST_S, DAY_S, NULL},
    {"--threads", ALL_HAVE, WHOLE, AT(params.threads), 1, MAX_FLOWS, NULL},
    {"--cpus", ALL_HAVE, TEXT, 0, 0, 0, set_cpus},
    {"--mode", ALL_HAVE, TEXT, 0, 0, 0, set_mode},
    {"--window", ALL_HAVE, WHOLE, AT(params.link.options.window), LOWEST_WINDOW, HIGHEST_WINDOW,
     NULL},
    {"--mss", ALL_HAVE, WHOLE, AT(params.link.options.mss), LOWEST_MSS, HIGHEST_MSS, NULL},
    {"--congestion-control", ALL_HAVE, TEXT, 0, 0, 0, set_congestion_control},
    {"--pacing", ALL_HAVE, NUMBER, AT(params.link.options.pacing_bps), LOWEST_PACING,
     HIGHEST_PACING, NULL},
    {"--dscp", ALL_HAVE, WHOLE, AT(params.link.options.dscp), 0, HIGHEST_DSCP, NULL},
    {"--mptcp", ALL_HAVE, FLAG, AT(params.link.options.mptcp), 0, 0, NULL},
#undef AT
};

static void apply(const struct hand_option *option, struct options *options, const char *value)
{
    void *at = (char *)options + option->offset;
    if (option->set)
        option->set(options, option->name, value);
    else if (option->shape == FLAG)
        *(bool *)at = true;
    else if (option->shape == WHOLE)
        *(int *)at = whole_of(option->name, value, (int)option->low, (int)option->high);
    else
        *(double *)at = usage_number(option->name, value, option->low, option->high);
}

/* Sets what argv[at] says, and returns the index of the last argument that this took. */
static int set_option(struct options *options, int argc, char **argv, int at)
{
    const char *name = argv[at];
    const int who = options->params.link.listens ? RECV_HAS : SEND_HAS;
    for (size_t i = 0; i < sizeof hand_options / sizeof *hand_options; i++) {
        const struct hand_option *option = &hand_options[i];
        const bool has_value = option->shape != FLAG && option->shape != PLAIN;
        if (strcmp(option->name, name) != 0 || !(option->who & who))
            continue;
        if (has_value && at + 1 == argc)
            bad_usage("%s lacks its value", name);
        apply(option, options, has_value ? argv[at + 1] : NULL);
        return at + has_value;
    }
    bad_usage("%s has no option %s", who == SEND_HAS ? "send" : "recv", name);
}

static void read_options(int argc, char **argv, struct options *options)
{
    struct bulk_params *params = &options->params;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            i = set_option(options, argc, argv, i);
        else if (!params->link.listens && !params->link.host[0])
            set_host(params, argv[i]);
        else
            bad_usage("what is %s?", argv[i]);
    }
    if (!params->link.host[0])
        bad_usage("send needs the receiver's HOST");
    if (params->duration_s <= 0)
        params->duration_s = params->link.opening.bytes ? LONGEST_S : DEFAULT_DURATION_S;
    if (params->link.opening.direction == BOTH)
        params->link.opening.flows *= 2;
    const char *misfit = bulk_misfit(params);
    if (misfit)
        bad_usage("%s", misfit);
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
