/* ping: relays GET /ping/n to pong, and measures it for GET /mping/n. */
#include "pong.h"

#include "address.h"
#include "clock.h"
#include "relay.h"
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RETRIES 10
#define TIMEOUT_S 10

static struct {
    struct serving serving;
    char host[HOST_SIZE]; /* pong's */
    int port;
    int retries;
    double timeout_s;
} params; /* of the job that was read last */

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    return serving_read(command, "listen_port", &params.serving, problem) &&
           field_text(command, "host", params.host, sizeof params.host, problem) &&
           field_whole(command, "port", 1, 65535, &params.port, problem) &&
           field_whole_or(command, "retries", 0, 1000, RETRIES, &params.retries, problem) &&
           field_number_or(command, "timeout_s", SHORTEST_S, LONGEST_S, TIMEOUT_S,
                           &params.timeout_s, problem);
}

static bool find_pong(struct job *job)
{
    struct places found;
    char authority[sizeof relaying.authority];
    if (!address_find(job, params.host, params.port, &found, authority))
        return false;
    memset(&relaying, 0, sizeof relaying);
    relaying.pong = found;
    memcpy(relaying.authority, authority, sizeof authority);
    relaying.retries = params.retries;
    relaying.timeout_ns = seconds_ns(params.timeout_s);
    relaying.relays = mmap(NULL, SERVER_CLIENTS * sizeof *relaying.relays, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (relaying.relays != MAP_FAILED)
        return true;
    return job_fail(job, "resource", -1, "no memory for the relays: %s", strerror(errno));
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

static void tell_result(const struct job *job)
{
    (void)job;
    serving_tell();
}

const struct kind ping_kind = {"ping", true, read_params, run, tell_result, false};
