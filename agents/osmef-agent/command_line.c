#include "command_line.h"

#include "arguments.h"
#include "bulk.h"
#include "events.h"
#include "lines.h"
#include "pong.h"
#include "serving.h"
#include "siege.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RECEIVER_PORT 5210
#define HTTP_PORT 8080
#define TIMEOUT_S 15
#define DURATION_S 10
#define INTERVAL_S 1
#define DAY_S 86400
#define NO_COOKIE "00000000000000000000000000000000"

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
    "GET /ping/N answers what pong answers to GET /pong/N; GET /mping/N answers with the outcome:\n"
    "{\"length\", \"code\", \"retries\", \"duration\"}, the duration in ms.\n"
    "\n"
    "  --pong HOST:PORT  where pong is\n"
    "  --port PORT       port to listen on (8080; 0: any free one)\n"
    "  --bind ADDRESS    address to listen on (all)\n"
    "  --retries N       further attempts to reach pong, with growing pauses (10)\n"
    "  --timeout S       longest silence of pong, and time for all attempts (10)\n"
    "  --threads N       threads (one a CPU)\n"
    "  --json            print the events of the agent protocol\n";

static const char siege_help[] =
    "Usage: osmef-agent siege URL [OPTIONS]   send requests and measure how long they take\n"
    "\n"
    "URL is http://HOST:PORT/PATH, where {size} in the path stands for the size; without a path "
    "it\n"
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
    "  --rate R          requests/s, each timed from when it was due; else as fast as answers "
    "come\n"
    "  --close           a new connection for each request\n"
    "  --timeout S       how long a request may take (60)\n"
    "  --threads N       threads (one a CPU)\n"
    "  --json            print the events of the agent protocol, with every request\n"
    "\n"
    "Exit status: 0 measured, 1 the measurement failed, 2 wrong usage.\n";

#define NUMBER_ARGUMENT(name, key)                                                                 \
    {                                                                                              \
        name, key, ARGUMENT_NUMBER, NULL, 0, 0                                                     \
    }
#define NUMBER_WITHIN(name, key, low, high)                                                        \
    {                                                                                              \
        name, key, ARGUMENT_NUMBER, NULL, low, high                                                \
    }
#define TEXT_ARGUMENT(name, key)                                                                   \
    {                                                                                              \
        name, key, ARGUMENT_TEXT, NULL, 0, 0                                                       \
    }
#define WORD_ARGUMENT(name, key, word)                                                             \
    {                                                                                              \
        name, key, ARGUMENT_WORD, word, 0, 0                                                       \
    }
#define SET(name, key)                                                                             \
    {                                                                                              \
        name, key, ARGUMENT_TRUE, NULL, 0, 0                                                       \
    }
#define CLEAR(name, key)                                                                           \
    {                                                                                              \
        name, key, ARGUMENT_FALSE, NULL, 0, 0                                                      \
    }

static const struct argument bulk_arguments[] = {
    NUMBER_WITHIN("--port", "port", 1, 65535),
    NUMBER_WITHIN("--interval", "interval_s", SHORTEST_S, DAY_S),
    TEXT_ARGUMENT("--cookie-file", "cookie_file"),
    SET("--json", "json"),
    NUMBER_WITHIN("--active", "active_s", SHORTEST_S, DAY_S),
    NUMBER_WITHIN("--idle", "idle_s", SHORTEST_S, DAY_S),
    NUMBER_ARGUMENT("--threads", "threads"),
    TEXT_ARGUMENT("--cpus", "cpus"),
    TEXT_ARGUMENT("--mode", "mode"),
    NUMBER_ARGUMENT("--window", "window"),
    NUMBER_ARGUMENT("--mss", "mss"),
    TEXT_ARGUMENT("--congestion-control", "congestion_control"),
    NUMBER_ARGUMENT("--pacing", "pacing_bps"),
    NUMBER_ARGUMENT("--dscp", "dscp"),
    SET("--mptcp", "mptcp"),
    ARGUMENT_END,
};
static const struct argument recv_arguments[] = {TEXT_ARGUMENT("--bind", "bind"), ARGUMENT_END};
static const struct argument send_arguments[] = {
    NUMBER_ARGUMENT("--connections", "connections"),
    NUMBER_ARGUMENT("--flows", "connections"), /* former name */
    NUMBER_WITHIN("--duration", "duration_s", 0.1, DAY_S),
    NUMBER_WITHIN("--bytes", "bytes", 1, 1e15),
    NUMBER_WITHIN("--warmup", "warmup_s", 0, DAY_S),
    WORD_ARGUMENT("--reverse", "direction", "reverse"),
    WORD_ARGUMENT("--both", "direction", "both"),
    WORD_ARGUMENT("-4", "family", "4"),
    WORD_ARGUMENT("-6", "family", "6"),
    ARGUMENT_END,
};
static const struct argument http_arguments[] = {NUMBER_ARGUMENT("--threads", "threads"),
                                                 SET("--json", "json"), ARGUMENT_END};
static const struct argument pong_arguments[] = {NUMBER_ARGUMENT("--port", "port"),
                                                 TEXT_ARGUMENT("--bind", "bind"), ARGUMENT_END};
static const struct argument ping_arguments[] = {
    TEXT_ARGUMENT("--pong", "pong"),           NUMBER_ARGUMENT("--port", "listen_port"),
    TEXT_ARGUMENT("--bind", "bind"),           NUMBER_ARGUMENT("--retries", "retries"),
    NUMBER_ARGUMENT("--timeout", "timeout_s"), ARGUMENT_END};
static const struct argument siege_arguments[] = {
    NUMBER_ARGUMENT("--min", "size_min"),      NUMBER_ARGUMENT("--max", "size_max"),
    NUMBER_ARGUMENT("--coverage", "coverage"), CLEAR("--no-replacement", "replacement"),
    TEXT_ARGUMENT("--sizes", "sizes"),         NUMBER_ARGUMENT("--repetitions", "repetitions"),
    NUMBER_ARGUMENT("--seed", "seed"),         NUMBER_ARGUMENT("--connections", "connections"),
    NUMBER_ARGUMENT("--rate", "rate_per_s"),   CLEAR("--close", "keep_alive"),
    NUMBER_ARGUMENT("--timeout", "timeout_s"), ARGUMENT_END,
};

static struct control control;
static struct bulk_params bulk_params;

/* In a file, since any process can read the arguments in /proc. */
static const char *read_cookie(const char *path)
{
    static char text[64];
    unsigned char cookie[COOKIE_SIZE];
    FILE *file = fopen(path, "re");
    if (!file)
        bad_usage("can't read the cookie file %s: %s", path, strerror(errno));
    if (fgets(text, sizeof text, file))
        text[strcspn(text, "\r\n")] = '\0';
    fclose(file);
    if (!cookie_read(text, cookie))
        bad_usage("the cookie file %s must begin with a line of 32 hex digits", path);
    return text;
}

static void add_number_or(struct json_object *command, const char *key, double otherwise)
{
    if (!json_find(command, key))
        arguments_add_number(command, key, otherwise);
}

static void add_text_or(struct json_object *command, const char *key, const char *otherwise)
{
    const char *const text = arguments_text(command, key, NULL);
    if (!text)
        arguments_add_text(command, key, otherwise);
    else if (!*text || strlen(text) >= HOST_SIZE)
        bad_usage("%s is not an address", text);
}

static void complete_bulk(struct json_object *command)
{
    const char *const cookie_file = arguments_text(command, "cookie_file", NULL);
    arguments_add_text(command, "cookie", cookie_file ? read_cookie(cookie_file) : NO_COOKIE);
    add_number_or(command, "port", RECEIVER_PORT);
    add_number_or(command, "interval_s", INTERVAL_S);
    add_number_or(command, "connections", 1);
    add_number_or(command, "duration_s", json_find(command, "bytes") ? LONGEST_S : DURATION_S);
    arguments_add_number(command, "arm_timeout_s", TIMEOUT_S);
    arguments_add_number(command, "stall_timeout_s", TIMEOUT_S);
}

static void complete_recv(struct json_object *command)
{
    arguments_add_text(command, "side", "listen");
    add_text_or(command, "bind", usage_any_address());
    complete_bulk(command);
}

static void complete_send(struct json_object *command)
{
    arguments_add_text(command, "side", "connect");
    if (!json_find(command, "host"))
        bad_usage("send needs the receiver's HOST");
    add_text_or(command, "host", "");
    complete_bulk(command);
}

static void complete_pong(struct json_object *command)
{
    add_text_or(command, "bind", usage_any_address());
    add_number_or(command, "port", HTTP_PORT);
}

static void complete_ping(struct json_object *command)
{
    const char *const pong = arguments_text(command, "pong", NULL);
    if (!pong)
        bad_usage("ping needs --pong HOST:PORT");
    arguments_add_address(command, pong, strlen(pong), 0);
    add_text_or(command, "bind", usage_any_address());
    add_number_or(command, "listen_port", HTTP_PORT);
}

static void complete_siege(struct json_object *command)
{
    const char *const url = arguments_text(command, "url", NULL);
    if (!url)
        bad_usage("siege needs a URL");
    if (strncmp(url, "http://", 7) != 0)
        bad_usage("%s must begin with http://", url);
    const char *const host = url + 7, *const slash = strchr(host, '/');
    if (slash && strlen(slash) >= SIEGE_PATH)
        bad_usage("the path must be shorter than %d characters", SIEGE_PATH);
    if (slash && slash[1])
        arguments_add_text(command, "path", slash);
    arguments_add_address(command, host, slash ? (size_t)(slash - host) : strlen(host), 80);
}

static bool read_bulk(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    struct link_params *link = &bulk_params.link;
    const char *const family = arguments_text(command, "family", "");
    if (!bulk_read(command, &bulk_params, problem))
        return false;
    link->family = *family == '6' ? AF_INET6 : *family == '4' ? AF_INET : 0;
    if (link->listens)
        link->handshake.flows = 0; /* the connecting end determines it */
    return true;
}

/* SIGINT ends a server with its result, and a siege without one. */
static void interrupted(int signal_number)
{
    (void)signal_number;
    control.stop = control.kind->serves;
    control.abort = !control.kind->serves;
}

static bool run_bulk(struct job *job, bool json)
{
    const struct bulk *done =
        bulk_run(job, &bulk_params, json ? &bulk_event_view : &bulk_line_view);
    if (done && !json)
        bulk_print_result(done);
    return done;
}

static bool run_http(struct job *job, void (*print)(void), bool json)
{
    const struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    const bool done = job->kind->run(job);
    if (done && !json)
        print();
    return done;
}

static const struct program {
    struct argument_tables arguments;
    const char *help; /* NULL: it is part of the agent's own */
    const struct kind *kind;
    /* Adds the members that the arguments lack. */
    void (*complete)(struct json_object *command);
    void (*print)(void); /* the result of an HTTP job; NULL: of a transfer */
} programs[] = {
    {{"recv", {recv_arguments, bulk_arguments}, NULL}, NULL, &bulk_kind, complete_recv, NULL},
    {{"send", {send_arguments, bulk_arguments}, "host"}, NULL, &bulk_kind, complete_send, NULL},
    {{"pong", {pong_arguments, http_arguments}, NULL},
     pong_help,
     &pong_kind,
     complete_pong,
     serving_print},
    {{"ping", {ping_arguments, http_arguments}, NULL},
     ping_help,
     &ping_kind,
     complete_ping,
     serving_print},
    {{"siege", {siege_arguments, http_arguments}, "url"},
     siege_help,
     &siege_kind,
     complete_siege,
     siege_print_result},
};

static const struct program *find_program(const char *name)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].arguments.command, name) == 0)
            return &programs[i];
    return NULL;
}

bool is_command(const char *command)
{
    return find_program(command) != NULL;
}

static int run_program(const struct program *program, bool json)
{
    control.commands.in = -1;
    control.start = true;
    control.kind = program->kind;
    struct job job = {.id = "by-hand",
                      .kind = program->kind,
                      .control = &control,
                      .report = json ? &event_report : &line_report,
                      .standalone = true};
    const bool done = program->print ? run_http(&job, program->print, json) : run_bulk(&job, json);
    if (!done)
        job.report->failed(&job);
    else if (json)
        event_result(&job);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run_command(int argc, char **argv)
{
    static struct json_object command;
    char problem[PROBLEM_SIZE];
    const struct program *program = find_program(argv[0]);
    if (program->help && argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(program->help, stdout);
        return EXIT_SUCCESS;
    }
    arguments_read(&program->arguments, argc, argv, &command);
    program->complete(&command);
    if (!(program->print ? program->kind->read : read_bulk)(&command, problem))
        arguments_refuse(&program->arguments, &command, problem);
    return run_program(program, json_find(&command, "json"));
}
