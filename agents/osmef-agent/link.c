#include "link.h"

#include "admit.h"
#include "connect.h"

#include <sys/eventfd.h>
#include <unistd.h>

bool link_read(const struct json_object *command, struct link_params *params, char *problem)
{
    static const char *const sides[] = {"listen", "connect", NULL};
    int side = 0;
    if (!field_word_or(command, "side", sides, -1, &side, problem))
        return false;
    params->listens = side == 0;
    return field_cookie(command, params->opening.cookie, problem) &&
           field_text(command, params->listens ? "bind" : "host", params->host, HOST_SIZE,
                      problem) &&
           field_whole(command, "port", !params->listens, 65535, &params->port, problem) &&
           field_whole(command, "flows", 1, MAX_FLOWS, &params->opening.flows, problem) &&
           field_number(command, "arm_timeout_s", SHORTEST_S, LONGEST_S, &params->arm_timeout_s,
                        problem) &&
           field_number(command, "stall_timeout_s", SHORTEST_S, LONGEST_S, &params->stall_timeout_s,
                        problem) &&
           options_read(command, &params->options, problem);
}

bool link_open(struct job *job, struct link_params *params, struct link *link)
{
    link->flows = 0;
    link->refused = 0;
    for (int i = 0; i < MAX_FLOWS; i++)
        link->fds[i] = -1;
    const bool ok =
        params->listens ? admit_flows(job, params, link) : connect_flows(job, params, link);
    link->flows = params->opening.flows;
    if (!ok)
        link_close(link);
    return ok;
}

int link_watch(struct job *job, const struct link *link, int first, int count, int wake,
               int64_t until_ns)
{
    static struct pollfd fds[2 + MAX_FLOWS];
    eventfd_t ended;
    fds[1] = (struct pollfd){.fd = wake, .events = POLLIN};
    for (int i = 0; i < count; i++)
        fds[2 + i] = (struct pollfd){.fd = link->fds[first + i], .events = POLLIN | POLLRDHUP};
    control_wait(job->control, fds, (nfds_t)count + 2, until_ns);
    if (fds[1].revents)
        eventfd_read(wake, &ended);
    for (int i = 0; i < count; i++)
        if (fds[2 + i].revents)
            return first + i;
    return -1;
}

void link_close(struct link *link)
{
    for (int i = 0; i < MAX_FLOWS; i++) {
        if (link->fds[i] >= 0)
            close(link->fds[i]);
        link->fds[i] = -1;
    }
}
