/* The connections between both ends of a job. */
#ifndef OSMEF_LINK_H
#define OSMEF_LINK_H

#include "handshake.h"
#include "job.h"
#include "options.h"

#include <unistd.h>

#define HOST_SIZE 256

struct link_params {
    bool listens;
    char host[HOST_SIZE]; /* the listening end's address, at either end */
    int port;
    int connections; /* in each direction */
    int family;      /* address family to connect with; 0: any */
    struct handshake handshake;
    struct socket_options options;
    double arm_timeout_s;
    double stall_timeout_s;
};

/* The message for a flow with ETIMEDOUT. */
#define GAVE_UP                                                                                    \
    "the kernel has given up, since the peer acknowledges nothing (ETIMEDOUT); is the link up, "   \
    "and fast enough for so many flows?"

struct link {
    int flows;
    int fds[MAX_FLOWS]; /* blocking; they linger for 0 s */
    int refused;        /* connections that failed to authenticate */
};

/* Reads the members of all jobs with two ends; the kind must have been set in the handshake. */
bool link_read(const struct json_object *command, struct link_params *params, char *problem);

/* Connects all flows, or listens and admits them; all other connections are refused. After a
 * failure nothing stays open. */
bool link_open(struct job *job, struct link_params *params, struct link *link);

/* Waits as control_wait() does, also for `wake` (an eventfd, which it reads), and for data or the
 * end of the connection on one of `count` flows. Returns the first such flow, or -1. */
int link_watch(struct job *job, const struct link *link, int first, int count, int wake,
               int64_t until_ns);

/* Until a flow has ended properly its socket lingers for 0 s: closing it resets the connection. */
static inline void link_close(struct link *link)
{
    for (int i = 0; i < MAX_FLOWS; i++) {
        if (link->fds[i] >= 0)
            close(link->fds[i]);
        link->fds[i] = -1;
    }
}

#endif
