#include "serve.h"

#include "clock.h"
#include "control.h"
#include "events.h"
#include "kind.h"
#include "out.h"
#include "realtime_priority.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PROTOCOL 2

void say_hello(void)
{
    struct utsname name;
    uname(&name);
    out_format("{\"event\":\"hello\",\"protocol\":%d,\"version\":\"%s\",\"machine\":", PROTOCOL,
               OSMEF_VERSION);
    out_string(name.machine);
    out_format(",\"pid\":%d}", getpid());
    out_line();
}

static void do_job(struct control *control)
{
    struct job job = {.kind = control->kind, .control = control, .report = &event_report};
    memcpy(job.id, control->id, sizeof job.id);
    const bool ok = job.kind->run(&job);
    realtime_priority_drop(); /* a job that failed before its start has not done so */
    if (ok)
        event_result(&job);
    else
        job.report->failed(&job);
    control->busy = false;
}

_Noreturn void serve(void)
{
    static struct control control; /* without initializer, which would enlarge the file */
    control.commands.in = STDIN_FILENO;
    control.kinds = kinds;
    for (;;) {
        struct pollfd fds[1];
        control_wait(&control, fds, 1, FOREVER);
        if (control.busy)
            do_job(&control);
    }
}
