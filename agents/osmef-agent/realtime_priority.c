#include "realtime_priority.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOT_TAKEN -1

static int policy_before = NOT_TAKEN; /* the policy to restore */

/* musl's sched_setscheduler() always fails (ENOSYS). */
static bool set(int policy, int priority)
{
    const struct sched_param wanted = {.sched_priority = priority};
    return syscall(SYS_sched_setscheduler, 0, policy, &wanted) == 0;
}

void realtime_priority_take(void)
{
    const int policy = (int)syscall(SYS_sched_getscheduler, 0);
    if (policy_before == NOT_TAKEN && (policy == SCHED_OTHER || policy == SCHED_BATCH) &&
        set(SCHED_FIFO, 1))
        policy_before = policy;
}

void realtime_priority_drop(void)
{
    if (policy_before != NOT_TAKEN)
        set(policy_before, 0);
    policy_before = NOT_TAKEN;
}
