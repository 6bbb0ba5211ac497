#include "job.h"

#include "connect.h"
#include "handshake.h"
#include "transfer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool job_fail(struct job *job, const char *kind, int flow, const char *format, ...)
{
    if (job->failure.kind)
        return false;
    job->failure.kind = kind;
    job->failure.flow = flow;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->failure.message, sizeof job->failure.message, format, arguments);
    va_end(arguments);
    return false;
}

bool job_aborted(struct job *job)
{
    if (job->control->abort)
        job_fail(job, "aborted", -1, "the controller aborted the job");
    return job->control->abort;
}

static void prepare(struct job *job)
{
    for (int i = 0; i < MAX_FLOWS; i++) {
        job->flows[i].job = job;
        job->flows[i].index = i;
        job->flows[i].fd = -1;
    }
    job->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->wake < 0)
        job_fail(job, "resource", -1, "no event descriptor: %s", strerror(errno));
}

static void clean_up(struct job *job)
{
    /* Until a flow has ended properly its socket lingers for 0 s: closing it resets the peer. */
    for (int i = 0; i < MAX_FLOWS; i++)
        if (job->flows[i].fd >= 0)
            close(job->flows[i].fd);
    if (job->wake >= 0)
        close(job->wake);
}

bool job_run(struct job *job, struct control *control, const struct params *params,
             const struct report *report)
{
    memset(job, 0, sizeof *job);
    job->params = *params;
    job->control = control;
    job->report = report;
    prepare(job);
    const bool ok = !job->failure.kind &&
                    (params->role == SENDER ? connect_flows(job) : admit_flows(job)) &&
                    transfer(job);
    clean_up(job);
    /* Only now: who reads this may count on it that the agent holds no connection any more. */
    if (ok)
        report->result(job);
    else
        report->failed(job);
    return ok;
}
