#include "control.h"

#include "clock.h"
#include "kind.h"
#include "link.h"
#include "nics.h"
#include "out.h"
#include "realtime_priority.h"

#include <stdlib.h>
#include <string.h>

static void write_clock(void)
{
    const int64_t realtime = clock_ns(CLOCK_REALTIME);
    out_format("{\"event\":\"clock\",\"realtime_ns\":%lld,\"monotonic_ns\":%lld}",
               (long long)realtime, (long long)now_ns());
    out_line();
}

static void write_interface(const struct json_object *command)
{
    struct asked {
        char address[HOST_SIZE];
    } asked;
#define FIELDS_OF struct asked
    static const struct field fields[] = {TEXT("address", address), FIELDS_END};
#undef FIELDS_OF
    char problem[PROBLEM_SIZE], name[NIC_NAME_SIZE];
    if (!fields_read(command, fields, &asked, problem)) {
        protocol_error(problem);
        return;
    }
    out_format("{\"event\":\"interface\",\"name\":");
    if (nic_of(asked.address, name))
        out_string(name);
    else
        out_format("null");
    out_format("}");
    out_line();
}

static void write_carried(void)
{
    const struct nics nics = nics_now();
    out_format("{\"event\":\"carried\"");
    write_nics(&nics);
    out_format("}");
    out_line();
}

static const struct kind *find_kind(const struct control *c, const char *name)
{
    for (const struct kind *const *kind = c->kinds; *kind; kind++)
        if (strcmp((*kind)->name, name) == 0)
            return *kind;
    return NULL;
}

/* Jobs that run until `stop`. */
static bool is_stoppable(const struct json_object *command, const struct kind *kind)
{
    const struct json_member *until_stopped = json_find(command, "until_stopped");
    return kind->serves || (until_stopped && until_stopped->type == JSON_LITERAL &&
                            until_stopped->literal == JSON_TRUE);
}

static void accept_job(struct control *c, const struct json_object *command,
                       const struct kind *kind)
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
        c->stoppable = is_stoppable(command, kind);
        c->start = c->stop = c->abort = false;
        c->start_ns = 0;
        c->channel_input_size = 0;
    }
}

/* Returns whether this job is running. It is no error when it has just ended, since the command may
 * have been sent before the job's last event was read. */
static bool has_job(const struct control *c, const struct json_object *command)
{
    char id[ID_SIZE];
    if (field_id(command, id) && strcmp(id, c->id) == 0)
        return c->busy;
    protocol_error("there is no job with this id");
    return false;
}

static void start_job(struct control *c, const struct json_object *command)
{
    struct moment {
        uint64_t at_ns;
    } moment;
#define FIELDS_OF struct moment
    static const struct field fields[] = {SIZE("at_monotonic_ns", at_ns, 0, LARGEST_SIZE, 0),
                                          FIELDS_END};
#undef FIELDS_OF
    char problem[PROBLEM_SIZE];
    if (!fields_read(command, fields, &moment, problem)) {
        protocol_error(problem);
    } else {
        c->start_ns = (int64_t)moment.at_ns;
        c->start = true;
        if (c->start_ns > now_ns())
            realtime_priority_take();
    }
}

static void stop_job(struct control *c)
{
    if (c->stoppable)
        c->stop = true;
    else
        protocol_error("this job ends by itself; abort it to end it early");
}

static void store_channel_input(struct control *c, const struct json_object *command)
{
    const struct json_member *text = json_find(command, "text");
    if (!c->kind->accepts_input) {
        protocol_error("this job accepts no input");
    } else if (!text || text->type != JSON_STRING) {
        protocol_error("text must be a string");
    } else if (strlen(text->text) > CHANNEL_INPUT_SIZE - c->channel_input_size) {
        protocol_error("the program does not read what is written to its channel");
    } else {
        memcpy(c->channel_input + c->channel_input_size, text->text, strlen(text->text));
        c->channel_input_size += strlen(text->text);
    }
}

static void control_job(struct control *c, const struct json_object *command, const char *name)
{
    if (strcmp(name, "start") == 0)
        start_job(c, command);
    else if (strcmp(name, "stop") == 0)
        stop_job(c);
    else if (strcmp(name, "write") == 0)
        store_channel_input(c, command);
    else
        c->abort = true;
}

static bool is_job_command(const char *name)
{
    static const char *const names[] = {"start", "stop", "write", "abort", NULL};
    const char *const *at = names;
    while (*at && strcmp(*at, name) != 0)
        at++;
    return *at != NULL;
}

static void handle_command(void *context, char *line, size_t length)
{
    struct control *c = context;
    struct json_object command;
    const char *problem = json_parse(line, length, &command);
    if (problem) {
        protocol_error(problem);
        return;
    }
    const struct json_member *cmd = json_find(&command, "cmd");
    const char *name = cmd && cmd->type == JSON_STRING ? cmd->text : "";
    const struct kind *kind = find_kind(c, name);
    if (kind)
        accept_job(c, &command, kind);
    else if (strcmp(name, "clock") == 0)
        write_clock();
    else if (strcmp(name, "interface") == 0)
        write_interface(&command);
    else if (strcmp(name, "carried") == 0)
        write_carried();
    else if (!is_job_command(name))
        protocol_error("cmd must be clock, interface, carried, start, stop, write, abort or a kind"
                       " of job");
    else if (has_job(c, &command))
        control_job(c, &command, name);
}

void control_wait(struct control *c, struct pollfd *fds, nfds_t count, int64_t until_ns)
{
    fds[0] = (struct pollfd){.fd = c->commands.in, .events = POLLIN};
    const struct timespec timeout = timeout_until(until_ns);
    if (ppoll(fds, count, &timeout, NULL) < 0)
        for (nfds_t i = 0; i < count; i++)
            fds[i].revents = 0;
    else if (fds[0].revents && !commands_read(&c->commands, handle_command, c))
        exit(EXIT_SUCCESS);
}
