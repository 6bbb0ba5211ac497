#include "agent_multiplexer.h"

#include "clock.h"
#include "commands.h"
#include "fields.h"
#include "out.h"
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_AGENTS 1024
/* The longest line that the controller reads. */
#define MAX_LINE (1024 * 1024)
#define INITIAL_CAPACITY (16 * 1024)
/* An agent whose input has ended may have to kill programs first. */
#define CLOSE_TIMEOUT_S 15.0

/* An agent: a process, and the socket that is its standard input and output. */
struct agent {
    int number; /* given by the controller */
    pid_t pid;
    int fd;
    int64_t kill_ns; /* when it is killed; FOREVER: its input is still open */
    char *buffer;    /* an incomplete line */
    size_t used;
    size_t capacity;
};

static struct {
    struct commands commands;
    struct agent agents[MAX_AGENTS];
    int count;
    int highest;          /* of an agent so far */
    bool controller_gone; /* nothing is written any more */
} multiplexer;

static struct agent *find(int number)
{
    for (int i = 0; i < multiplexer.count; i++)
        if (multiplexer.agents[i].number == number)
            return &multiplexer.agents[i];
    return NULL;
}

/* Closes the sockets of the other agents, which otherwise would stay open until this one ends. */
static _Noreturn void run_agent(int fd)
{
    for (int i = 0; i < multiplexer.count; i++)
        close(multiplexer.agents[i].fd);
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    close(fd);
    serve();
}

static void report_ended(int number, int status, const char *problem)
{
    const bool killed = WIFSIGNALED(status);
    if (multiplexer.controller_gone)
        return;
    out_format("{\"agent\":%d,\"event\":\"ended\",\"status\":", number);
    out_format(killed ? "null" : "%d", WEXITSTATUS(status));
    out_format(",\"signal\":");
    out_format(killed ? "%d" : "null", WTERMSIG(status));
    out_format(",\"message\":");
    out_string(problem);
    out_format("}");
    out_line();
}

static void open_agent(int number)
{
    int ends[2];
    if (number <= multiplexer.highest) {
        protocol_error("an agent's number must be higher than those of the agents before");
        return;
    }
    multiplexer.highest = number;
    if (multiplexer.count == MAX_AGENTS ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        report_ended(number, 0,
                     multiplexer.count == MAX_AGENTS ? "there are too many" : strerror(errno));
        return;
    }
    const pid_t pid = fork();
    const int why = errno;
    if (pid == 0) {
        close(ends[0]);
        run_agent(ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        report_ended(number, 0, strerror(why));
        return;
    }
    multiplexer.agents[multiplexer.count++] =
        (struct agent){.number = number, .pid = pid, .fd = ends[0], .kill_ns = FOREVER};
}

static void close_agent(struct agent *agent)
{
    shutdown(agent->fd, SHUT_WR);
    agent->kill_ns = now_ns() + seconds_ns(CLOSE_TIMEOUT_S);
}

/* An agent that does not read is killed once its socket buffer, a few hundred kilobytes, is
 * full. */
static void forward_command(const struct agent *agent, const char *line, size_t length)
{
    if (send(agent->fd, line, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
        kill(agent->pid, SIGKILL);
}

static void handle_command(void *context, char *line, size_t length)
{
    static char copy[LINE_SIZE + 1];
    char problem[PROBLEM_SIZE];
    struct json_object command;
    struct recipient {
        int number;
    } target;
#define FIELDS_OF struct recipient
    static const struct field fields[] = {WHOLE("agent", number, 0, INT32_MAX, NEEDED), FIELDS_END};
#undef FIELDS_OF
    (void)context;
    memcpy(copy, line, length);
    copy[length] = '\n';
    const char *const wrong = json_parse(line, length, &command);
    if (wrong) {
        protocol_error(wrong);
        return;
    }
    if (!fields_read(&command, fields, &target, problem)) {
        protocol_error(problem);
        return;
    }
    const struct json_member *cmd = json_find(&command, "cmd");
    const char *name = cmd && cmd->type == JSON_STRING ? cmd->text : "";
    struct agent *agent = find(target.number);
    if (strcmp(name, "open") == 0)
        open_agent(target.number);
    else if (agent && strcmp(name, "close") == 0)
        close_agent(agent);
    else if (agent)
        forward_command(agent, copy, length + 1);
    else if (target.number > multiplexer.highest) /* else it has just ended */
        protocol_error("there is no agent of this number");
}

/* Forwards each complete line of an agent, with its number, and keeps the rest. */
static void forward_lines(struct agent *agent)
{
    char *line = agent->buffer;
    char *end;
    while ((end = memchr(line, '\n', agent->used - (size_t)(line - agent->buffer)))) {
        if (!multiplexer.controller_gone) {
            out_format("{\"agent\":%d,%.*s", agent->number, (int)(end - line - 1), line + 1);
            out_line();
        }
        line = end + 1;
    }
    agent->used -= (size_t)(line - agent->buffer);
    memmove(agent->buffer, line, agent->used);
}

static bool ensure_space(struct agent *agent)
{
    if (agent->used < agent->capacity)
        return true;
    const size_t capacity = agent->capacity ? 2 * agent->capacity : INITIAL_CAPACITY;
    char *buffer = capacity <= MAX_LINE ? realloc(agent->buffer, capacity) : NULL;
    if (buffer) {
        agent->buffer = buffer;
        agent->capacity = capacity;
    }
    return buffer;
}

/* Returns false at the end of its events. */
static bool read_agent(struct agent *agent)
{
    if (!ensure_space(agent)) {
        kill(agent->pid, SIGKILL);
        return false;
    }
    const ssize_t n =
        recv(agent->fd, agent->buffer + agent->used, agent->capacity - agent->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    agent->used += (size_t)n;
    forward_lines(agent);
    return true;
}

/* Waits for the process, which has ended or is about to, and reports its end. */
static void end_agent(struct agent *agent)
{
    int status = 0;
    close(agent->fd);
    while (waitpid(agent->pid, &status, 0) < 0 && errno == EINTR)
        ;
    free(agent->buffer);
    report_ended(agent->number, status, "");
    *agent = multiplexer.agents[--multiplexer.count];
}

static int64_t kill_overdue(void)
{
    const int64_t now = now_ns();
    int64_t next_ns = FOREVER;
    for (int i = 0; i < multiplexer.count; i++) {
        if (multiplexer.agents[i].kill_ns <= now)
            kill(multiplexer.agents[i].pid, SIGKILL);
        else if (multiplexer.agents[i].kill_ns < next_ns)
            next_ns = multiplexer.agents[i].kill_ns;
    }
    return next_ns;
}

/* Waits for events of agents, and for commands where `reads_commands`. Returns false at the end of
 * the commands. */
static bool step(bool reads_commands)
{
    static struct pollfd fds[1 + MAX_AGENTS];
    const struct timespec timeout = timeout_until(kill_overdue());
    const int count = multiplexer.count;
    fds[0] = (struct pollfd){.fd = reads_commands ? multiplexer.commands.in : -1, .events = POLLIN};
    for (int i = 0; i < count; i++)
        fds[1 + i] = (struct pollfd){.fd = multiplexer.agents[i].fd, .events = POLLIN};
    if (ppoll(fds, (nfds_t)count + 1, &timeout, NULL) < 0)
        return true;
    /* Backwards, since the last agent moves to the index of one that has ended. */
    for (int i = count - 1; i >= 0; i--)
        if (fds[1 + i].revents && !read_agent(&multiplexer.agents[i]))
            end_agent(&multiplexer.agents[i]);
    return !fds[0].revents || commands_read(&multiplexer.commands, handle_command, NULL);
}

_Noreturn void serve_many(void)
{
    multiplexer.commands.in = STDIN_FILENO;
    multiplexer.highest = -1;
    while (step(true))
        ;
    multiplexer.controller_gone = true;
    for (int i = 0; i < multiplexer.count; i++)
        close_agent(&multiplexer.agents[i]);
    while (multiplexer.count)
        step(false);
    exit(EXIT_SUCCESS);
}
