#include "httphand.h"

#include "events.h"
#include "lines.h"
#include "pong.h"
#include "serving.h"
#include "siege.h"
#include "usage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char pong_help[] =
    "Usage: osmef-agent pong [OPTIONS]   answer GET /pong/N with N bytes, until Ctrl-C\n"
    "\n"
    "  --port PORT       port to listen on (8080; 0: any free one)\n"
    "  --bind ADDRESS    address to listen on (all)\n"
    "  --threads N       threads (one a CPU)\n"
    "  --json            print the events of the agent protocol\n";

static const char ping_help[] =
    "Usage: osmef-agent ping --pong HOST:PORT [OPTIONS]   relay pong's answers, until Ctrl-C\n"
    "\n"
    "GET /ping/N answers what pong answers to GET /pong/N; GET /mping/N answers how it went:\n"
    "{\"length\", \"code\", \"retries\", \"duration\"}, the duration in ms.\n"
    "\n"
    "  --pong HOST:PORT  where pong is\n"
    "  --port PORT       port to listen on (8080; 0: any free one)\n"
    "  --bind ADDRESS    address to listen on (all)\n"
    "  --retries N       further attempts to reach pong, with growing pauses (10)\n"
    "  --timeout S       how long pong may say nothing, and how long it is tried (10)\n"
    "  --threads N       threads (one a CPU)\n"
    "  --json            print the events of the agent protocol\n";

static const char siege_help[] =
    "Usage: osmef-agent siege URL [OPTIONS]   send requests and measure how long they take\n"
    "\n"
    "URL is http://HOST:PORT/PATH, where {size} in the path stands for the size; without a path it\n"
    "is /mping/{size}. Answers of /mping/ are read as ping's JSON; of others the body is counted.\n"
    "\n"
    "Which sizes:\n"
    "  --min N --max N   they are drawn from this range (1 to 500000)\n"
    "  --coverage SHARE  ... as many as this share of it (0.05)\n"
    "  --no-replacement  ... each at most once\n"
    "  --sizes N,N,...   or: these\n"
    "  --repetitions N   requests of each size (1)\n"
    "  --seed N          another draw and another order (0)\n"
    "How:\n"
    "  --connections N   at a time (1)\n"
    "  --rate R          requests/s, each timed from when it was due; else as fast as answers come\n"
    "  --close           a new connection for each request\n"
    "  --timeout S       how long a request may take (60)\n"
    "  --threads N       threads (one a CPU)\n"
    "  --json            print the events of the agent protocol, with every request\n"
    "\n"
    "Exit status: 0 measured, 1 the measurement failed, 2 wrong usage.\n";

enum value { NUMBER, TEXT, CLEAR };

/* An option is a member of the job's command: what it may be is checked in one place. */
struct option {
    const char *name;
    const char *key;
    enum value value;
};

static const struct option pong_options[] = {
    {"--port", "port", NUMBER}, {"--bind", "bind", TEXT}, {"--threads", "threads", NUMBER}, {0}};
static const struct option ping_options[] = {
    {"--port", "listen_port", NUMBER},  {"--bind", "bind", TEXT},
    {"--retries", "retries", NUMBER},   {"--timeout", "timeout_s", NUMBER},
    {"--threads", "threads", NUMBER},   {0}};
static const struct option siege_options[] = {
    {"--min", "size_min", NUMBER},
    {"--max", "size_max", NUMBER},
    {"--coverage", "coverage", NUMBER},
    {"--no-replacement", "replacement", CLEAR},
    {"--sizes", "sizes", TEXT},
    {"--repetitions", "repetitions", NUMBER},
    {"--seed", "seed", NUMBER},
    {"--connections", "connections", NUMBER},
    {"--rate", "rate_per_s", NUMBER},
    {"--close", "keep_alive", CLEAR},
    {"--timeout", "timeout_s", NUMBER},
    {"--threads", "threads", NUMBER},
    {0}};

static const struct program {
    const struct kind *kind;
    const char *help;
    const struct option *options;
    void (*print)(void);
} programs[] = {
    {&pong_kind, pong_help, pong_options, serving_print},
    {&ping_kind, ping_help, ping_options, serving_print},
    {&siege_kind, siege_help, siege_options, siege_print_result},
};

static struct control control;

static const struct program *find_program(const char *name)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].kind->name, name) == 0)
            return &programs[i];
    return NULL;
}

bool http_is_by_hand(const char *command)
{
    return find_program(command) != NULL;
}

static void add_text(struct json_object *command, const char *key, const char *text)
{
    command->members[command->count++] =
        (struct json_member){.key = key, .type = JSON_STRING, .text = text};
}

static void add_number(struct json_object *command, const char *key, double number)
{
    command->members[command->count++] =
        (struct json_member){.key = key, .type = JSON_NUMBER, .number = number};
}

static void add_false(struct json_object *command, const char *key)
{
    command->members[command->count++] =
        (struct json_member){.key = key, .type = JSON_LITERAL, .literal = JSON_FALSE};
}

/* HOST:PORT, in place; an IPv6 address stands in brackets. */
static void add_address(struct json_object *command, char *text, int default_port)
{
    char *end = *text == '[' ? strchr(text, ']') : NULL;
    char *colon = strrchr(end ? end : text, ':');
    if (json_find(command, "host"))
        bad_usage("--pong is there twice");
    if (!colon && !default_port)
        bad_usage("%s must be HOST:PORT", text);
    add_number(command, "port", colon ? usage_number("the port", colon + 1, 1, 65535)
                                      : default_port);
    if (colon)
        *colon = '\0';
    if (end) {
        *end = '\0';
        text++;
    }
    add_text(command, "host", text);
}

static void add_url(struct json_object *command, char *url)
{
    static char path[SIEGE_PATH];
    if (strncmp(url, "http://", 7) != 0)
        bad_usage("%s must begin with http://", url);
    char *slash = strchr(url + 7, '/');
    if (slash && slash[1]) {
        if (strlen(slash) >= sizeof path)
            bad_usage("the path must be shorter than %d characters", SIEGE_PATH);
        memcpy(path, slash, strlen(slash) + 1);
        add_text(command, "path", path);
    }
    if (slash)
        *slash = '\0';
    add_address(command, url + 7, 80);
}

static void add_option(struct json_object *command, const struct option *option, const char *value)
{
    if (json_find(command, option->key))
        bad_usage("%s is there twice", option->name);
    if (option->value == NUMBER)
        add_number(command, option->key, usage_number(option->name, value, -1e12, 1e12));
    else if (option->value == TEXT)
        add_text(command, option->key, value);
    else
        add_false(command, option->key);
}

static const struct option *find_option(const struct program *program, const char *name)
{
    for (const struct option *option = program->options; option->name; option++)
        if (strcmp(option->name, name) == 0)
            return option;
    bad_usage("%s has no option %s", program->kind->name, name);
}

/* Reads the arguments into a command as a controller would send it. Returns whether events are
 * wanted. */
static bool read_arguments(const struct program *program, int argc, char **argv,
                           struct json_object *command)
{
    bool json = false;
    for (int i = 1; i < argc; i++) {
        char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (program->kind == &ping_kind && strcmp(argv[i], "--pong") == 0 && next) {
            add_address(command, next, 0);
            i++;
        } else if (argv[i][0] == '-') {
            const struct option *option = find_option(program, argv[i]);
            const bool takes = option->value != CLEAR;
            if (takes && !next)
                bad_usage("%s lacks its value", argv[i]);
            add_option(command, option, next);
            i += takes;
        } else if (program->kind == &siege_kind && !json_find(command, "host")) {
            add_url(command, argv[i]);
        } else {
            bad_usage("what is %s?", argv[i]);
        }
    }
    return json;
}

static void add_defaults(const struct program *program, struct json_object *command)
{
    const bool serves = program->kind->serves;
    const char *port = program->kind == &ping_kind ? "listen_port" : "port";
    if (!json_find(command, "host") && program->kind != &pong_kind)
        bad_usage(serves ? "ping needs --pong HOST:PORT" : "siege needs a URL");
    if (serves && !json_find(command, "bind"))
        add_text(command, "bind", usage_any_address());
    if (serves && !json_find(command, port))
        add_number(command, port, 8080);
}

/* Ctrl-C ends a server with its result, and a siege without one. */
static void interrupted(int signal_number)
{
    (void)signal_number;
    control.stop = control.kind->serves;
    control.abort = !control.kind->serves;
}

int http_by_hand(int argc, char **argv)
{
    static struct json_object command;
    const struct program *program = find_program(argv[0]);
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(program->help, stdout);
        return EXIT_SUCCESS;
    }
    char problem[PROBLEM_SIZE];
    const bool json = read_arguments(program, argc, argv, &command);
    add_defaults(program, &command);
    if (!program->kind->read(&command, problem))
        bad_usage("%s", problem);
    control.in = -1;
    control.start = true;
    control.kind = program->kind;
    const struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct job job = {.id = "by-hand",
                      .kind = program->kind,
                      .control = &control,
                      .report = json ? &event_report : &line_report,
                      .by_hand = true};
    const bool done = program->kind->run(&job);
    if (!done)
        job.report->failed(&job);
    else if (json)
        event_result(&job);
    else
        program->print();
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
