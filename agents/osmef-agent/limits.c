#include "limits.h"

#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit given;
static bool raised;

void limits_raise(void)
{
    raised = getrlimit(RLIMIT_NOFILE, &given) == 0;
    const struct rlimit limit = {given.rlim_max, given.rlim_max};
    if (raised)
        setrlimit(RLIMIT_NOFILE, &limit);
}

void limits_restore(void)
{
    if (raised)
        setrlimit(RLIMIT_NOFILE, &given);
}
