#include "byhand.h"

#include "bulk.h"
#include "bulk_events.h"
#include "events.h"
#include "lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BAD_USAGE 2
#define DEFAULT_PORT 5210
#define TIMEOUT_S 15
#define DEFAULT_DURATION_S 10

struct options {
    struct bulk_params params;
    bool json;
};

__attribute__((format(printf, 1, 2))) static _Noreturn void bad_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("osmef-agent: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n  cure: osmef-agent --help lists the options\n", stderr);
    va_end(arguments);
    exit(BAD_USAGE);
}

static double number_of(const char *option, const char *text, double low, double high)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        bad_usage("%s is %s, but must be a number from %g to %g", option, text, low, high);
    return value;
}

static int whole_of(const char *option, const char *text, int low, int high)
{
    const double value = number_of(option, text, low, high);
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

static void set_reverse(struct options *o, const char *option, const char *value)
{
    (void)option, (void)value;
    o->params.link.opening.direction = REVERSE;
}

static void set_both(struct options *o, const char *option, const char *value)
{
    (void)option, (void)value;
    o->params.link.opening.direction = BOTH;
}

static void set_json(struct options *o, const char *option, const char *value)
{
    (void)option, (void)value;
    o->json = true;
}

static void set_mptcp(struct options *o, const char *option, const char *value)
{
    (void)option, (void)value;
    o->params.link.options.mptcp = true;
}

static void set_family(struct options *o, const char *option, const char *value)
{
    (void)value;
    o->params.link.family = option[1] == '6' ? AF_INET6 : AF_INET;
}

static void set_port(struct options *o, const char *option, const char *value)
{
    o->params.link.port = whole_of(option, value, 1, 65535);
}

static void set_interval(struct options *o, const char *option, const char *value)
{
    o->params.interval_s = number_of(option, value, 0.01, 86400);
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

static void set_flows(struct options *o, const char *option, const char *value)
{
    o->params.link.opening.flows = whole_of(option, value, 1, MAX_FLOWS);
}

static void set_duration(struct options *o, const char *option, const char *value)
{
    o->params.duration_s = number_of(option, value, 0.1, 86400);
}

static void set_bytes(struct options *o, const char *option, const char *value)
{
    o->params.link.opening.bytes = (uint64_t)number_of(option, value, 1, 1e15);
}

static void set_warmup(struct options *o, const char *option, const char *value)
{
    o->params.warmup_s = number_of(option, value, 0, 86400);
}

static void set_active(struct options *o, const char *option, const char *value)
{
    o->params.active_s = number_of(option, value, 0.01, 86400);
}

static void set_idle(struct options *o, const char *option, const char *value)
{
    o->params.idle_s = number_of(option, value, 0.01, 86400);
}

static void set_threads(struct options *o, const char *option, const char *value)
{
    o->params.threads = whole_of(option, value, 1, MAX_FLOWS);
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

static void set_window(struct options *o, const char *option, const char *value)
{
    o->params.link.options.window = whole_of(option, value, LOWEST_WINDOW, HIGHEST_WINDOW);
}

static void set_mss(struct options *o, const char *option, const char *value)
{
    o->params.link.options.mss = whole_of(option, value, LOWEST_MSS, HIGHEST_MSS);
}

static void set_dscp(struct options *o, const char *option, const char *value)
{
    o->params.link.options.dscp = whole_of(option, value, 0, HIGHEST_DSCP);
}

static void set_pacing(struct options *o, const char *option, const char *value)
{
    o->params.link.options.pacing_bps = number_of(option, value, LOWEST_PACING, HIGHEST_PACING);
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

static const struct hand_option {
    const char *name;
    int who;
    bool has_value;
    void (*set)(struct options *options, const char *option, const char *value);
} hand_options[] = {
    {"--port", ALL_HAVE, true, set_port},
    {"--interval", ALL_HAVE, true, set_interval},
    {"--cookie-file", ALL_HAVE, true, set_cookie},
    {"--json", ALL_HAVE, false, set_json},
    {"--bind", RECV_HAS, true, set_bind},
    {"--flows", SEND_HAS, true, set_flows},
    {"--duration", SEND_HAS, true, set_duration},
    {"--bytes", SEND_HAS, true, set_bytes},
    {"--warmup", SEND_HAS, true, set_warmup},
    {"--reverse", SEND_HAS, false, set_reverse},
    {"--both", SEND_HAS, false, set_both},
    {"-4", SEND_HAS, false, set_family},
    {"-6", SEND_HAS, false, set_family},
    {"--active", ALL_HAVE, true, set_active},
    {"--idle", ALL_HAVE, true, set_idle},
    {"--threads", ALL_HAVE, true, set_threads},
    {"--cpus", ALL_HAVE, true, set_cpus},
    {"--mode", ALL_HAVE, true, set_mode},
    {"--window", ALL_HAVE, true, set_window},
    {"--mss", ALL_HAVE, true, set_mss},
    {"--congestion-control", ALL_HAVE, true, set_congestion_control},
    {"--pacing", ALL_HAVE, true, set_pacing},
    {"--dscp", ALL_HAVE, true, set_dscp},
    {"--mptcp", ALL_HAVE, false, set_mptcp},
    {NULL, 0, false, NULL},
};

/* Sets what argv[at] says, and returns the index of the last argument that this took. */
static int set_option(struct options *options, int argc, char **argv, int at)
{
    const char *name = argv[at];
    const bool sender = !options->params.link.listens;
    for (const struct hand_option *option = hand_options; option->name; option++) {
        if (strcmp(option->name, name) != 0 || !(option->who & (sender ? SEND_HAS : RECV_HAS)))
            continue;
        if (option->has_value && at + 1 == argc)
            bad_usage("%s lacks its value", name);
        option->set(options, name, option->has_value ? argv[at + 1] : NULL);
        return at + option->has_value;
    }
    bad_usage("%s has no option %s", sender ? "send" : "recv", name);
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

/* An IPv6 socket takes IPv4 as well, but some kernels have no IPv6. */
static const char *any_address(void)
{
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return "0.0.0.0";
    close(fd);
    return "::";
}

int by_hand(int argc, char **argv)
{
    static struct control control = {.in = -1, .start = true};
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
        set_host(params, any_address());
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
