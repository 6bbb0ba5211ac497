/* All descendants of this process. As their subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)) it becomes
 * the parent of every orphan among them, so that it also finds processes that have their own
 * session or whose parents have ended. */
#ifndef OSMEF_DESCENDANTS_H
#define OSMEF_DESCENDANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct descendants {
    pid_t first; /* the child whose end is recorded */
    bool ended;
    int status; /* of wait(2) */
    int64_t ended_ns;
    /* The sum over all that have been reaped, with their children. */
    double user_s;
    double system_s;
    int64_t max_rss_kb; /* of the largest */
};

/* Makes this process the subreaper of its descendants. */
void become_subreaper(void);

/* Reaps the children that have ended. Returns whether there are others. */
bool reap_descendants(struct descendants *descendants);

/* Kills all descendants, repeatedly, until none is left or until `until_ns`. Returns how many are
 * left. */
int kill_descendants(struct descendants *descendants, int64_t until_ns);

#endif
