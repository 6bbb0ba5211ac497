#include "serve.h"

#include "clock.h"
#include "control.h"
#include "events.h"
#include "kind.h"
#include "out.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PROTOCOL 2

static void say_hello(void)
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
    if (job.kind->run(&job))
        event_result(&job);
    else
        job.report->failed(&job);
    control->busy = false;
}

_Noreturn void serve(void)
{
    static struct control control = {.in = STDIN_FILENO};
    say_hello();
    for (;;) {
        struct pollfd fds[1];
        control_wait(&control, fds, 1, FOREVER);
        if (control.busy)
            do_job(&control);
    }
}
