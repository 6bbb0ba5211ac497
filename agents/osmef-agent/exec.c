#include "exec.h"

#include "clock.h"
#include "cpu.h"
#include "events.h"
#include "link.h"
#include "listening_ports.h"
#include "nics.h"
#include "out.h"
#include "program_output.h"
#include "realtime_priority.h"
#include "resolve.h"
#include "scratch.h"
#include "supervisor.h"
#include "tcpinfo.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MAX_OUTPUT 10000000
#define CHANNEL_SIZE 64
/* Between checks of a port, of which the kernel does not notify, and twice what a check takes. */
#define PORT_CHECK_NS (NS_PER_S / 1000)
/* From the program's end to that of its descendants and of the supervisor. */
#define END_S (KILL_TIMEOUT_S + 2)
/* The removal of a large file may take a while. */
#define REMOVAL_S 120

enum ready { READY_START, READY_LINE, READY_TCP, READY_UDP };
static const char *const ready_words[] = {"start", "line", "tcp", "udp", NULL};

static struct exec_params {
    struct text_list argv;
    struct text_list env;
    char dir[PATH_MAX];
    char input[LINE_SIZE];
    bool scratch; /* the directory is created for the job */
    uint64_t room;
    bool serves; /* a server: started when armed, and ready some time later */
    int ready;
    char line[READY_LINE_SIZE];
    char channel[CHANNEL_SIZE]; /* the variable with its descriptor; "": there is none */
    char bind[HOST_SIZE];
    int port;
    uint64_t most_output;
    double deadline_s;
    double grace_s;
    double arm_timeout_s;
} params; /* of the job that was read last */

static struct {
    struct job *job;
    struct supervisor supervisor;
    struct scratch scratch;
    struct program_output output;
    struct socket_address address; /* where the program will listen */
    bool armed;
    bool started;
    bool ended;
    bool done;    /* all of its descendants have ended, too, and all output was sent */
    bool stopped; /* by the controller */
    int status;
    int64_t start_ns;
    int64_t ended_ns;
    int64_t start_realtime_ns;
    struct exec_status use; /* resource usage of the program and its descendants */
    struct endpoint_time endpoint;
    struct nics nics;
} exec;

static bool reject(char *problem, const char *reason)
{
    snprintf(problem, PROBLEM_SIZE, "%s", reason);
    return false;
}

static bool check_lists(char *problem)
{
    const char *at = params.env.text;
    if (params.argv.count == 0 || !params.argv.text[0])
        return reject(problem, "argv must begin with the name of a program");
    for (int i = 0; i < params.env.count; i++, at += strlen(at) + 1)
        if (!strchr(at, '=') || *at == '=')
            return reject(problem, "env must be a list of NAME=VALUE");
    return true;
}

/* The fields that do not depend on `ready` and `serves`. */
static const struct field fields[] = {
#define FIELDS_OF struct exec_params
    LIST("argv", argv),
    LIST("env", env),
    TEXT_OR("dir", dir, ""),
    TEXT_OR("stdin", input, ""),
    TEXT_OR("channel", channel, ""),
    FLAG("scratch", scratch, false),
    SIZE("room", room, 0, LARGEST_SIZE, 0),
    FLAG("serves", serves, false),
    WORD("ready", ready, ready_words, READY_START),
    TEXT_OR("bind", bind, "::"),
    NUMBER("grace_s", grace_s, 0, LONGEST_S, 2),
    NUMBER("arm_timeout_s", arm_timeout_s, SHORTEST_S, LONGEST_S, 15),
    SIZE("most_output", most_output, 0, LARGEST_SIZE, MAX_OUTPUT),
    FIELDS_END,
};
static const struct field line_fields[] = {TEXT("ready_line", line), FIELDS_END};
static const struct field port_fields[] = {WHOLE("port", port, 1, 65535, NEEDED), FIELDS_END};
static const struct field no_port_fields[] = {WHOLE("port", port, 0, 65535, 0), FIELDS_END};
static const struct field deadline_fields[] = {
    NUMBER("deadline_s", deadline_s, SHORTEST_S, LONGEST_S, NEEDED),
    FIELDS_END,
};
static const struct field server_fields[] = {
    NUMBER("deadline_s", deadline_s, SHORTEST_S, LONGEST_S, LONGEST_S),
    FIELDS_END,
#undef FIELDS_OF
};

static bool check_scratch(char *problem)
{
    if (params.scratch && !*params.dir)
        return reject(problem, "scratch needs dir, the directory that is to be made");
    return params.scratch || !params.room || reject(problem, "room has a say only with scratch");
}

static bool read_ready(const struct json_object *command, char *problem)
{
    if (!params.serves && params.ready != READY_START)
        return reject(problem, "ready has a say only where the program serves");
    const bool has_port = params.ready == READY_TCP || params.ready == READY_UDP;
    params.line[0] = '\0';
    return (params.ready != READY_LINE || fields_read(command, line_fields, &params, problem)) &&
           fields_read(command, has_port ? port_fields : no_port_fields, &params, problem);
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    return fields_read(command, fields, &params, problem) && check_lists(problem) &&
           (!strchr(params.channel, '=') ||
            reject(problem, "channel must be the name of a variable")) &&
           check_scratch(problem) && read_ready(command, problem) &&
           fields_read(command, params.serves ? server_fields : deadline_fields, &params, problem);
}

/* The probable reason why the program can't be run. */
static const char *explanation(const struct exec_status *status)
{
    if (status->error == ENOEXEC)
        return "it is no program for this kind of machine";
    if (status->error != ENOENT)
        return "look at its permissions and PATH";
    if (status->stage == STAGE_LOADING)
        return "it is gone, or the loader or interpreter that it asks for is missing";
    return strchr(params.argv.text, '/') ? "it is missing" : "it is in no folder of PATH";
}

static bool fail_to_run(const struct exec_status *status)
{
    const char *const why = strerror(status->error);
    if (status->stage == STAGE_DIRECTORY)
        return job_fail(exec.job, "program", -1, "can't go to the directory %s: %s", params.dir,
                        why);
    if (status->stage == STAGE_PROCESS)
        return job_fail(exec.job, "resource", -1, "no process for %s: %s", params.argv.text, why);
    return job_fail(exec.job, "program", -1, "can't run %s: %s; %s", params.argv.text, why,
                    explanation(status));
}

static void record_end(const struct exec_status *status)
{
    exec.ended = true;
    exec.status = status->wait_status;
    exec.ended_ns = status->ended_ns;
    exec.endpoint = endpoint_since(exec.endpoint);
    nics_since(&exec.nics);
}

static void record_done(const struct exec_status *status)
{
    exec.done = true;
    exec.use = *status;
    output_drain(&exec.output);
    if (status->left || !exec.ended)
        job_fail(exec.job, "left", -1,
                 "processes of the program that can't be killed: %d; end them by hand",
                 status->left);
    if (status->error)
        job_fail(exec.job, "directory", -1, "what the program has left in %s can't be removed: %s",
                 params.dir, strerror(status->error));
}

static void read_status(void)
{
    struct exec_status status;
    bool received;
    if (!supervisor_read(&exec.supervisor, &status, &received) && !exec.done)
        job_fail(exec.job, "resource", -1, "the program's supervisor was killed");
    if (!received)
        return;
    switch (status.kind) {
    case STATUS_ARMED:
        exec.armed = true;
        break;
    case STATUS_STARTED:
        exec.started = true;
        break;
    case STATUS_FAILED:
        fail_to_run(&status);
        break;
    case STATUS_ENDED:
        record_end(&status);
        break;
    case STATUS_DONE:
        record_done(&status);
        break;
    }
}

static bool has_channel_input(void)
{
    if (exec.job->control->channel_input_size && exec.supervisor.channel < 0)
        job_fail(exec.job, "protocol", -1, "this program has no channel to write to");
    return exec.job->control->channel_input_size;
}

/* Writes to the program's channel as much as its buffer takes. After the program has closed it,
 * further input is dropped. */
static void forward_channel_input(void)
{
    struct control *control = exec.job->control;
    ssize_t sent = send(exec.supervisor.channel, control->channel_input,
                        control->channel_input_size, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sent < 0)
        sent = (ssize_t)control->channel_input_size;
    control->channel_input_size -= (size_t)sent;
    memmove(control->channel_input, control->channel_input + sent, control->channel_input_size);
}

/* Waits for an event, or until then. Returns false when the job has failed. */
static bool step(int64_t until_ns)
{
    struct pollfd fds[3 + STREAMS];
    output_watch(&exec.output, fds + 3, &until_ns);
    fds[1] = (struct pollfd){.fd = exec.supervisor.socket, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = has_channel_input() ? exec.supervisor.channel : -1,
                             .events = POLLOUT};
    control_wait(exec.job->control, fds, 3 + STREAMS, until_ns);
    if (fds[1].revents)
        read_status();
    if (fds[2].revents)
        forward_channel_input();
    output_read(&exec.output, fds + 3);
    return !exec.job->failure.kind && !job_aborted(exec.job);
}

/* Fails a job that is stopped before the program is ready. */
static bool is_stopped_early(void)
{
    if (exec.job->control->stop)
        job_fail(exec.job, "aborted", -1, "the controller stopped it before it was ready");
    return exec.job->control->stop;
}

static bool arm(int64_t deadline_ns)
{
    while (!exec.armed) {
        if (now_ns() >= deadline_ns)
            return job_fail(exec.job, "arm-timeout", -1, "%s could not be loaded within %g s",
                            params.argv.text, params.arm_timeout_s);
        if (!step(deadline_ns) || is_stopped_early())
            return false;
    }
    return true;
}

static bool await_start(int64_t deadline_ns)
{
    const struct control *control = exec.job->control;
    while (!control->start || now_ns() < control->start_ns) {
        if (!control->start && now_ns() >= deadline_ns)
            return job_fail(exec.job, "arm-timeout", -1, "the program was not started within %g s",
                            params.arm_timeout_s);
        if (exec.ended)
            return job_fail(exec.job, "program", -1, "the program was killed before its start");
        if (!step(control->start ? control->start_ns : deadline_ns) || is_stopped_early())
            return false;
    }
    return true;
}

static void start(void)
{
    exec.start_realtime_ns = clock_ns(CLOCK_REALTIME);
    exec.start_ns = exec.output.start_ns = now_ns();
    supervisor_start(&exec.supervisor);
    realtime_priority_drop();
    exec.endpoint = endpoint_time(); /* reading it takes a while; its unit is 10 ms */
    exec.nics = nics_now();
}

static bool is_ready(void)
{
    if (params.ready == READY_LINE)
        return exec.output.matched;
    return exec.started && (params.ready == READY_START ||
                            port_is_bound(params.ready == READY_UDP, &exec.address, params.port));
}

/* How the program ended, as a part of a message. */
static const char *ending(void)
{
    static char text[96];
    if (WIFSIGNALED(exec.status))
        snprintf(text, sizeof text, "by signal %d (%s)", WTERMSIG(exec.status),
                 strsignal(WTERMSIG(exec.status)));
    else
        snprintf(text, sizeof text, "with status %d", WEXITSTATUS(exec.status));
    return text;
}

/* What the job waits for, as a part of a message. */
static const char *readiness_condition(void)
{
    static char text[READY_LINE_SIZE + HOST_SIZE + 64];
    if (params.ready == READY_START)
        return "begin";
    if (params.ready == READY_LINE)
        snprintf(text, sizeof text, "print '%s'", params.line);
    else
        snprintf(text, sizeof text, "%s port %d at %s",
                 params.ready == READY_TCP ? "listen on" : "bind UDP", params.port, params.bind);
    return text;
}

static bool await_ready(int64_t deadline_ns)
{
    for (;;) {
        const int64_t checked_ns = now_ns();
        if (is_ready())
            return true;
        const int64_t now = now_ns(), next = now + PORT_CHECK_NS + 2 * (now - checked_ns);
        if (exec.done)
            return job_fail(exec.job, "program", -1, "the program ended %s before it was ready%s",
                            ending(), output_tail(&exec.output));
        if (now >= deadline_ns)
            return job_fail(exec.job, "arm-timeout", -1, "the program did not %s within %g s%s",
                            readiness_condition(), params.arm_timeout_s, output_tail(&exec.output));
        const bool checks_port = params.ready >= READY_TCP && next < deadline_ns;
        if (!step(checks_port ? next : deadline_ns) || is_stopped_early())
            return false;
    }
}

/* The next deadline. */
static int64_t due_ns(int64_t kill_ns)
{
    if (exec.ended)
        return exec.ended_ns + seconds_ns(END_S + (params.scratch ? REMOVAL_S : 0));
    const int64_t deadline_ns = exec.start_ns + seconds_ns(params.deadline_s);
    return kill_ns < deadline_ns ? kill_ns : deadline_ns;
}

/* Whether a deadline has passed that fails the job. At `kill_ns`, the end of grace_s after `stop`,
 * the program is killed. */
static bool is_late(int64_t *kill_ns)
{
    const int64_t now = now_ns();
    if (exec.ended && now >= due_ns(*kill_ns))
        return !job_fail(exec.job, "left", -1, "what the program has started does not end%s",
                         params.scratch ? ", or what it wrote takes too long to remove" : "");
    if (!exec.ended && now >= exec.start_ns + seconds_ns(params.deadline_s))
        return !job_fail(exec.job, "deadline", -1, "the program still ran after %g s%s",
                         params.deadline_s, output_tail(&exec.output));
    if (now >= *kill_ns) {
        supervisor_kill(&exec.supervisor);
        *kill_ns = FOREVER;
    }
    return false;
}

static bool await_end(void)
{
    int64_t kill_ns = FOREVER;
    while (!exec.done) {
        if (exec.job->control->stop && !exec.stopped) {
            exec.stopped = true;
            supervisor_terminate(&exec.supervisor);
            kill_ns = now_ns() + seconds_ns(params.grace_s);
        }
        if (is_late(&kill_ns) || !step(due_ns(kill_ns)))
            return false;
    }
    return true;
}

static bool find_address(void)
{
    struct address_list found;
    if (!resolve(params.bind, params.port, false, &found))
        return job_fail(exec.job, "bind", -1, "%s is no address; %s", params.bind,
                        resolve_cure(false));
    exec.address = found.at[0];
    if (params.ready < READY_TCP)
        return true;
    if (port_is_bound(params.ready == READY_UDP, &exec.address, params.port))
        return job_fail(exec.job, "bind", -1, "another program has port %d on %s", params.port,
                        params.bind);
    return port_can_be_bound(params.ready == READY_UDP, &exec.address) ||
           job_fail(exec.job, "bind", -1,
                    "port %d on %s is in use, if only by a connection that has just ended",
                    params.port, params.bind);
}

static bool fail_room(uint64_t room)
{
    const char *const slash = strrchr(params.dir, '/');
    return job_fail(exec.job, "room", -1,
                    "the program needs %.1f MB in %.*s, and %.1f MB are free there: %.1f MB are "
                    "missing",
                    1e-6 * (double)params.room, slash ? (int)(slash - params.dir) : 1,
                    slash ? params.dir : ".", 1e-6 * (double)room,
                    1e-6 * (double)(params.room - room));
}

static bool make_scratch(void)
{
    uint64_t room = 0;
    if (!params.scratch)
        return true;
    int why = scratch_open(&exec.scratch, params.dir);
    if (!why)
        why = scratch_room(&exec.scratch, &room);
    if (!why && room < params.room)
        return fail_room(room);
    if (!why)
        why = scratch_make(&exec.scratch, params.dir);
    return !why || job_fail(exec.job, "directory", -1, "can't make the directory %s: %s",
                            params.dir, strerror(why));
}

static bool open_supervisor(void)
{
    static char *argv[LIST_ITEMS + 1], *env[LIST_ITEMS + 1];
    const struct exec_request request = {argv,         env,           params.dir,
                                         params.input, &exec.scratch, params.channel};
    list_items(&params.argv, argv);
    list_items(&params.env, env);
    if (!supervisor_open(exec.job, &request, &exec.supervisor))
        return false;
    const int streams[STREAMS] = {exec.supervisor.output[0], exec.supervisor.output[1],
                                  exec.supervisor.channel};
    output_begin(&exec.output, exec.job, streams, params.most_output, params.line);
    return true;
}

static bool perform(void)
{
    const int64_t deadline_ns = now_ns() + seconds_ns(params.arm_timeout_s);
    if (!find_address() || !make_scratch() || !open_supervisor() || !arm(deadline_ns))
        return false;
    if (!params.serves) {
        exec.job->report->connected(exec.job);
        if (!await_start(deadline_ns))
            return false;
    }
    start();
    if (params.serves) {
        if (!await_ready(deadline_ns))
            return false;
        exec.job->report->listening(exec.job, params.bind, params.port);
    }
    return await_end();
}

static bool run(struct job *job)
{
    memset(&exec, 0, sizeof exec);
    exec.job = job;
    exec.scratch.parent = -1;
    const bool ok = perform();
    supervisor_close(&exec.supervisor);
    scratch_remove(&exec.scratch); /* there may have been no supervisor */
    scratch_close(&exec.scratch);
    return ok && !job->failure.kind;
}

static void write_result(const struct job *job)
{
    (void)job;
    const bool killed = WIFSIGNALED(exec.status);
    out_format(",\"start_realtime_ns\":%lld,\"elapsed_s\":%.9f", (long long)exec.start_realtime_ns,
               ns_seconds(exec.ended_ns - exec.start_ns));
    write_value(",\"status\":", killed ? UNKNOWN : WEXITSTATUS(exec.status));
    write_value(",\"signal\":", killed ? WTERMSIG(exec.status) : UNKNOWN);
    out_format(",\"stopped\":%s,\"stdout_bytes\":%llu,\"stderr_bytes\":%llu",
               exec.stopped ? "true" : "false", (unsigned long long)exec.output.streams[0].bytes,
               (unsigned long long)exec.output.streams[1].bytes);
    out_format(",\"process\":{\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,\"max_rss_kb\":%lld}",
               exec.use.user_s, exec.use.system_s, (long long)exec.use.max_rss_kb);
    write_endpoint(&exec.endpoint);
    write_nics(&exec.nics);
}

const struct kind exec_kind = {"exec", true, read_params, run, write_result, true};
