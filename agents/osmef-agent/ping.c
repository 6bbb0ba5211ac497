/* ping: relays GET /ping/n to pong, and measures it for GET /mping/n. */
#include "pong.h"

#include "clock.h"
#include "pages.h"
#include "relay.h"
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RETRIES 10
#define TIMEOUT_S 10

static struct ping_params {
    struct serving serving;
    char host[HOST_SIZE]; /* pong's */
    int port;
    int retries;
    double timeout_s;
} params; /* of the job that was read last */

static const struct field fields[] = {
#define FIELDS_OF struct ping_params
    TEXT("host", host),
    WHOLE("port", port, 1, 65535, NEEDED),
    WHOLE("retries", retries, 0, 1000, RETRIES),
    NUMBER("timeout_s", timeout_s, SHORTEST_S, LONGEST_S, TIMEOUT_S),
    FIELDS_END,
#undef FIELDS_OF
};

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    return serving_read(command, true, &params.serving, problem) &&
           fields_read(command, fields, &params, problem);
}

static bool find_pong(struct job *job)
{
    memset(&relaying, 0, sizeof relaying);
    if (!resolve_peer(job, params.host, params.port, &relaying.pong))
        return false;
    resolve_authority(params.host, params.port, relaying.authority);
    relaying.retries = params.retries;
    relaying.timeout_ns = seconds_ns(params.timeout_s);
    relaying.relays = pages_map(SERVER_CLIENTS * sizeof *relaying.relays, MAP_NORESERVE);
    return relaying.relays ||
           job_fail(job, "resource", -1, "no memory for the relays: %s", strerror(errno));
}

static void close_all(void)
{
    for (int i = 0; i < SERVER_CLIENTS; i++)
        if (relaying.relays[i].client && relaying.relays[i].source.fd >= 0)
            close(relaying.relays[i].source.fd);
    for (int i = 0; i < MAX_LOOPS; i++)
        for (int k = 0; k < relaying.idle[i].count; k++)
            close(relaying.idle[i].fds[k]);
    munmap(relaying.relays, SERVER_CLIENTS * sizeof *relaying.relays);
}

static bool run(struct job *job)
{
    if (!find_pong(job))
        return false;
    const bool ok = serving_run(job, &params.serving, &ping_service);
    close_all();
    return ok;
}

static void write_result(const struct job *job)
{
    (void)job;
    serving_write();
}

const struct kind ping_kind = {"ping", true, read_params, run, write_result, false};
