#include "control.h"

#include "clock.h"
#include "kind.h"
#include "link.h"
#include "nics.h"
#include "out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void protocol_error(const char *message)
{
    out_format("{\"event\":\"error\",\"id\":null,\"kind\":\"protocol\",\"message\":");
    out_string(message);
    out_format("}");
    out_line();
}

static void tell_clock(void)
{
    const int64_t realtime = clock_ns(CLOCK_REALTIME);
    out_format("{\"event\":\"clock\",\"realtime_ns\":%lld,\"monotonic_ns\":%lld}",
               (long long)realtime, (long long)now_ns());
    out_line();
}

static void tell_interface(const struct json_object *command)
{
    char problem[PROBLEM_SIZE], address[HOST_SIZE], name[NIC_NAME_SIZE];
    if (!field_text(command, "address", address, sizeof address, problem)) {
        protocol_error(problem);
        return;
    }
    out_format("{\"event\":\"interface\",\"name\":");
    if (nic_of(address, name))
        out_string(name);
    else
        out_format("null");
    out_format("}");
    out_line();
}

static void tell_carried(void)
{
    const struct nics nics = nics_now();
    out_format("{\"event\":\"carried\"");
    tell_nics(&nics);
    out_format("}");
    out_line();
}

static const struct kind *find_kind(const char *name)
{
    for (const struct kind *const *kind = kinds; *kind; kind++)
        if (strcmp((*kind)->name, name) == 0)
            return *kind;
    return NULL;
}

/* One that serves, or that was armed to end when it is told to. */
static bool may_be_stopped(const struct json_object *command, const struct kind *kind)
{
    char problem[PROBLEM_SIZE];
    bool until_stopped = false;
    return kind->serves ||
           (field_flag_or(command, "until_stopped", false, &until_stopped, problem) &&
            until_stopped);
}

static void take_job(struct control *c, const struct json_object *command, const struct kind *kind)
{
    char problem[PROBLEM_SIZE];
    char id[ID_SIZE];
    if (c->busy) {
        protocol_error("a job is running; abort it or wait for its end");
    } else if (!field_id(command, id)) {
        protocol_error("id must be a string of 1 to 64 letters, digits and . _ : -");
    } else if (!kind->read(command, problem)) {
        protocol_error(problem);
    } else {
        c->kind = kind;
        memcpy(c->id, id, sizeof id);
        c->busy = true;
        c->stoppable = may_be_stopped(command, kind);
        c->start = c->stop = c->abort = false;
        c->start_ns = 0;
        c->words_size = 0;
    }
}

/* One that has just ended by itself is not an error: its last event and the command have crossed.
 * Returns false when there is nothing to steer. */
static bool is_steerable(const struct control *c, const struct json_object *command)
{
    char id[ID_SIZE];
    if (field_id(command, id) && strcmp(id, c->id) == 0)
        return c->busy;
    protocol_error("there is no job with this id");
    return false;
}

static void start_job(struct control *c, const struct json_object *command)
{
    char problem[PROBLEM_SIZE];
    uint64_t at_ns;
    if (!field_size_or(command, "at_monotonic_ns", 0, &at_ns, problem)) {
        protocol_error(problem);
    } else {
        c->start_ns = (int64_t)at_ns;
        c->start = true;
    }
}

static void stop_job(struct control *c)
{
    if (c->stoppable)
        c->stop = true;
    else
        protocol_error("this job ends by itself; abort it to end it early");
}

static void keep_words(struct control *c, const struct json_object *command)
{
    const struct json_member *text = json_find(command, "text");
    if (!c->kind->hears) {
        protocol_error("this job is told nothing");
    } else if (!text || text->type != JSON_STRING) {
        protocol_error("text must be a string");
    } else if (strlen(text->text) > WORDS_SIZE - c->words_size) {
        protocol_error("the program does not read what is written to its channel");
    } else {
        memcpy(c->words + c->words_size, text->text, strlen(text->text));
        c->words_size += strlen(text->text);
    }
}

static void steer(struct control *c, const struct json_object *command, const char *name)
{
    if (strcmp(name, "start") == 0)
        start_job(c, command);
    else if (strcmp(name, "stop") == 0)
        stop_job(c);
    else if (strcmp(name, "write") == 0)
        keep_words(c, command);
    else
        c->abort = true;
}

static bool steers(const char *name)
{
    static const char *const names[] = {"start", "stop", "write", "abort", NULL};
    const char *const *at = names;
    while (*at && strcmp(*at, name) != 0)
        at++;
    return *at != NULL;
}

static void obey(struct control *c, char *line, size_t length)
{
    struct json_object command;
    const char *problem = json_parse(line, length, &command);
    if (problem) {
        protocol_error(problem);
        return;
    }
    const struct json_member *cmd = json_find(&command, "cmd");
    const char *name = cmd && cmd->type == JSON_STRING ? cmd->text : "";
    const struct kind *kind = find_kind(name);
    if (kind)
        take_job(c, &command, kind);
    else if (strcmp(name, "clock") == 0)
        tell_clock();
    else if (strcmp(name, "interface") == 0)
        tell_interface(&command);
    else if (strcmp(name, "carried") == 0)
        tell_carried();
    else if (!steers(name))
        protocol_error("cmd must be clock, interface, carried, start, stop, write, abort or a kind"
                       " of job");
    else if (is_steerable(c, &command))
        steer(c, &command, name);
}

/* Obeys each whole line that is in hand and keeps the rest. */
static void obey_lines(struct control *c)
{
    char *line = c->line;
    char *end;
    while ((end = memchr(line, '\n', c->used - (size_t)(line - c->line)))) {
        if (!c->too_long)
            obey(c, line, (size_t)(end - line));
        c->too_long = false;
        line = end + 1;
    }
    c->used -= (size_t)(line - c->line);
    memmove(c->line, line, c->used);
    if (c->used == LINE_SIZE) {
        if (!c->too_long)
            protocol_error("a command is longer than 16 KiB");
        c->too_long = true;
        c->used = 0;
    }
}

static void read_commands(struct control *c)
{
    const ssize_t n = read(c->in, c->line + c->used, LINE_SIZE - c->used);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        exit(EXIT_SUCCESS);
    c->used += (size_t)n;
    obey_lines(c);
}

void control_wait(struct control *c, struct pollfd *fds, nfds_t count, int64_t until_ns)
{
    fds[0] = (struct pollfd){.fd = c->in, .events = POLLIN};
    const int64_t left = until_ns - now_ns();
    const struct timespec timeout = {
        left > 0 ? left / NS_PER_S : 0,
        left > 0 ? left % NS_PER_S : 0,
    };
    if (ppoll(fds, count, &timeout, NULL) < 0)
        for (nfds_t i = 0; i < count; i++)
            fds[i].revents = 0;
    else if (fds[0].revents)
        read_commands(c);
}
