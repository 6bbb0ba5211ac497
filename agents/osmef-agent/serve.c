#include "serve.h"

#include "clock.h"
#include "control.h"
#include "events.h"
#include "out.h"

#include <sys/utsname.h>
#include <unistd.h>

#define PROTOCOL 1

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

_Noreturn void serve(void)
{
    static struct control control = {.in = STDIN_FILENO};
    static struct job job;
    say_hello();
    for (;;) {
        struct pollfd fds[1];
        control_wait(&control, fds, 1, FOREVER);
        if (control.busy) {
            job_run(&job, &control, &control.job, &event_report);
            control.busy = false;
        }
    }
}
