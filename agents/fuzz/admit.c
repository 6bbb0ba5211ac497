/* A listening end with unauthenticated connections: it reads the input over as many connections as
 * the first byte says, admits those with the cookie (zeros), and ends in time. */
#include "../osmef-agent/admit.h"
#include "../osmef-agent/clock.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CLIENTS 4
#define ARM_S 0.005
#define FLOWS 2

static struct {
    const uint8_t *data;
    size_t size;
    int count;
    int fds[MAX_CLIENTS];
} clients;

static void connect_all(const struct job *job, const char *address, int port)
{
    (void)job, (void)address;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < clients.count; i++) {
        const size_t share = clients.size / (size_t)clients.count;
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        clients.fds[i] = fd;
        linger_reset(fd, true); /* no port waits for its last segments */
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
            send(fd, clients.data + (size_t)i * share, share, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void ignore(const struct job *job)
{
    (void)job;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct report report = {connect_all, ignore, ignore};
    static struct control control;
    static struct link link;
    struct job job = {.control = &control, .report = &report};
    struct link_params params = {.listens = true,
                                 .host = "127.0.0.1",
                                 .handshake = {.kind = HANDSHAKE_BULK, .flows = FLOWS},
                                 .arm_timeout_s = ARM_S,
                                 .stall_timeout_s = 1};
    if (size < 1)
        return 0;
    control.commands.in = -1;
    clients.count = 1 + data[0] % MAX_CLIENTS;
    clients.data = data + 1;
    clients.size = size - 1;
    const int64_t began_ns = now_ns();
    const bool ok = link_open(&job, &params, &link);
    if (ok ? link.fds[0] < 0 || link.fds[1] < 0 : !job.failure.kind)
        abort();
    if (now_ns() - began_ns > 5 * NS_PER_S)
        abort();
    link_close(&link);
    for (int i = 0; i < clients.count; i++)
        close(clients.fds[i]);
    return 0;
}
