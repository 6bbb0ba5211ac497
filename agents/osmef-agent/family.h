/* All that descends from this process. With PR_SET_CHILD_SUBREAPER (prctl(2)) its orphans come back
 * to it, so that a program can't hide what it starts: neither in a session of its own nor behind
 * the end of its parents. */
#ifndef OSMEF_FAMILY_H
#define OSMEF_FAMILY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct family {
    pid_t first; /* whose end is noted */
    bool ended;
    int status; /* as wait(2) tells it */
    int64_t ended_ns;
    /* Of all that have been reaped, with their children. */
    double user_s;
    double system_s;
    int64_t max_rss_kb; /* of the largest */
};

/* Takes orphans in from now on. */
void family_adopt(void);

/* Reaps who has ended. Returns whether anybody is left. */
bool family_reap(struct family *family);

/* Kills everybody, again and again until nobody is left or the time is up. Returns how many are
 * left then. */
int family_kill(struct family *family, int64_t until_ns);

#endif
