#include "job.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

bool job_fail_socket(struct job *job, const char *kind, int flow, int error, const char *what)
{
    return job_fail(job, kind, flow, "no socket: %s; try fewer %s or raise the limits",
                    strerror(error), what);
}

bool job_aborted(struct job *job)
{
    if (job->control->abort)
        job_fail(job, "aborted", -1, "%s",
                 job->standalone ? "interrupted" : "the controller aborted the job");
    return job->control->abort;
}
