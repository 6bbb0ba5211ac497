/* pong: answers GET /pong/n with n bytes, "pooo...ng". */
#include "pong.h"

#include "serving.h"

static struct serving serving; /* of the job that was read last */

/* The published programs answer shorter ones with "pong". */
static void answer(struct loop *loop, struct client *client, int64_t length)
{
    (void)loop;
    client_answer(client, "200 OK", "text/plain", NULL, length < 4 ? 4 : length);
}

static const struct service service = {.routes = {{"/pong/", answer}}};

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    return serving_read(command, false, &serving, problem);
}

static bool run(struct job *job)
{
    return serving_run(job, &serving, &service);
}

static void write_result(const struct job *job)
{
    (void)job;
    serving_write();
}

const struct kind pong_kind = {"pong", true, read_params, run, write_result, false};
