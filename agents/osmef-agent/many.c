#include "many.h"

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

#define MOST_AGENTS 1024
/* The controller takes no longer line. */
#define MOST_LINE (1024 * 1024)
#define FIRST_ROOM (16 * 1024)
/* An agent whose input has ended may have programs to kill first. */
#define CLOSE_S 15.0

/* An agent: a process, and the socket that is its standard input and output. */
struct agent {
    int number; /* the controller's */
    pid_t pid;
    int fd;
    int64_t kill_ns; /* when it is killed; FOREVER: its input has not ended */
    char *said;      /* what is no whole line yet */
    size_t used;
    size_t room;
};

static struct {
    struct commands commands;
    struct agent agents[MOST_AGENTS];
    int count;
    int highest; /* number that an agent has had */
    bool alone;  /* nobody is there to be told anything */
} many;

static struct agent *find(int number)
{
    for (int i = 0; i < many.count; i++)
        if (many.agents[i].number == number)
            return &many.agents[i];
    return NULL;
}

/* The sockets of the others would stay open as long as this one lives. */
static _Noreturn void become(int fd)
{
    for (int i = 0; i < many.count; i++)
        close(many.agents[i].fd);
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    close(fd);
    serve();
}

static void tell_end(int number, int status, const char *problem)
{
    const bool killed = WIFSIGNALED(status);
    if (many.alone)
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
    if (number <= many.highest) {
        protocol_error("an agent's number must be higher than those of the agents before");
        return;
    }
    many.highest = number;
    if (many.count == MOST_AGENTS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        tell_end(number, 0, many.count == MOST_AGENTS ? "there are too many" : strerror(errno));
        return;
    }
    const pid_t pid = fork();
    const int why = errno;
    if (pid == 0) {
        close(ends[0]);
        become(ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        tell_end(number, 0, strerror(why));
        return;
    }
    many.agents[many.count++] =
        (struct agent){.number = number, .pid = pid, .fd = ends[0], .kill_ns = FOREVER};
}

static void close_agent(struct agent *agent)
{
    shutdown(agent->fd, SHUT_WR);
    agent->kill_ns = now_ns() + seconds_ns(CLOSE_S);
}

/* One that reads nothing, so that a few hundred kilobytes wait for it, does not live. */
static void pass_on(const struct agent *agent, const char *line, size_t length)
{
    if (send(agent->fd, line, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
        kill(agent->pid, SIGKILL);
}

static void obey(void *whom, char *line, size_t length)
{
    static char whole[LINE_SIZE + 1];
    char problem[PROBLEM_SIZE];
    struct json_object command;
    struct whom {
        int number;
    } to;
#define FIELDS_OF struct whom
    static const struct field fields[] = {WHOLE("agent", number, 0, INT32_MAX, NEEDED), FIELDS_END};
#undef FIELDS_OF
    (void)whom;
    memcpy(whole, line, length);
    whole[length] = '\n';
    const char *const wrong = json_parse(line, length, &command);
    if (wrong) {
        protocol_error(wrong);
        return;
    }
    if (!fields_read(&command, fields, &to, problem)) {
        protocol_error(problem);
        return;
    }
    const struct json_member *cmd = json_find(&command, "cmd");
    const char *name = cmd && cmd->type == JSON_STRING ? cmd->text : "";
    struct agent *agent = find(to.number);
    if (strcmp(name, "open") == 0)
        open_agent(to.number);
    else if (agent && strcmp(name, "close") == 0)
        close_agent(agent);
    else if (agent)
        pass_on(agent, whole, length + 1);
    else if (to.number > many.highest) /* one that ended by itself: that and this have crossed */
        protocol_error("there is no agent of this number");
}

/* Passes on each whole line that an agent has said, with its number, and keeps the rest. */
static void pass_lines(struct agent *agent)
{
    char *line = agent->said;
    char *end;
    while ((end = memchr(line, '\n', agent->used - (size_t)(line - agent->said)))) {
        if (!many.alone) {
            out_format("{\"agent\":%d,%.*s", agent->number, (int)(end - line - 1), line + 1);
            out_line();
        }
        line = end + 1;
    }
    agent->used -= (size_t)(line - agent->said);
    memmove(agent->said, line, agent->used);
}

static bool has_room(struct agent *agent)
{
    if (agent->used < agent->room)
        return true;
    const size_t room = agent->room ? 2 * agent->room : FIRST_ROOM;
    char *said = room <= MOST_LINE ? realloc(agent->said, room) : NULL;
    if (said) {
        agent->said = said;
        agent->room = room;
    }
    return said;
}

/* Returns false when it says no more. */
static bool hear(struct agent *agent)
{
    if (!has_room(agent)) {
        kill(agent->pid, SIGKILL);
        return false;
    }
    const ssize_t n =
        recv(agent->fd, agent->said + agent->used, agent->room - agent->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    agent->used += (size_t)n;
    pass_lines(agent);
    return true;
}

/* It has ended, or is ending. */
static void end_agent(struct agent *agent)
{
    int status = 0;
    close(agent->fd);
    while (waitpid(agent->pid, &status, 0) < 0 && errno == EINTR)
        ;
    free(agent->said);
    tell_end(agent->number, status, "");
    *agent = many.agents[--many.count];
}

static int64_t kill_late(void)
{
    const int64_t now = now_ns();
    int64_t next_ns = FOREVER;
    for (int i = 0; i < many.count; i++) {
        if (many.agents[i].kill_ns <= now)
            kill(many.agents[i].pid, SIGKILL);
        else if (many.agents[i].kill_ns < next_ns)
            next_ns = many.agents[i].kill_ns;
    }
    return next_ns;
}

/* Waits for agents, and for the controller where `hears` it; returns false when that is gone. */
static bool step(bool hears)
{
    static struct pollfd fds[1 + MOST_AGENTS];
    const int64_t until_ns = kill_late();
    const int64_t left = until_ns - now_ns();
    const struct timespec timeout = {left > 0 ? left / NS_PER_S : 0,
                                     left > 0 ? left % NS_PER_S : 0};
    const int count = many.count;
    fds[0] = (struct pollfd){.fd = hears ? many.commands.in : -1, .events = POLLIN};
    for (int i = 0; i < count; i++)
        fds[1 + i] = (struct pollfd){.fd = many.agents[i].fd, .events = POLLIN};
    if (ppoll(fds, (nfds_t)count + 1, &timeout, NULL) < 0)
        return true;
    /* From behind: the last one takes the place of one that has ended. */
    for (int i = count - 1; i >= 0; i--)
        if (fds[1 + i].revents && !hear(&many.agents[i]))
            end_agent(&many.agents[i]);
    return !fds[0].revents || commands_read(&many.commands, obey, NULL);
}

_Noreturn void serve_many(void)
{
    many.commands.in = STDIN_FILENO;
    many.highest = -1;
    while (step(true))
        ;
    many.alone = true;
    for (int i = 0; i < many.count; i++)
        close_agent(&many.agents[i]);
    while (many.count)
        step(false);
    exit(EXIT_SUCCESS);
}
