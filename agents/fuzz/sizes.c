/* The listening end of a size sweep: it reads the input as headers of batches and their messages,
 * stays within its buffers, and ends without an error or reports it. The first byte sets mode and
 * check. */
#include "../osmef-agent/sizes.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGEST 32
/* The answers are not read, and the socket holds some 270 of one byte. */
#define LONGEST_INPUT 256
#define HEADER_SIZE 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sizes sizes;
    struct flow_thread *thread = &sizes.threads.of[0];
    int ends[2];
    if (size > LONGEST_INPUT)
        size = LONGEST_INPUT;
    if (size < 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    sizes.params = (struct sizes_params){
        .link.listens = true, .max_size = LARGEST, .mode = data[0] % 3, .check = data[0] & 4};
    sizes.threads.params = &sizes.params.link;
    sizes.threads.start_gate = GATE_OPEN;
    sizes.threads.wake = -1;
    sizes.movers[0] = (struct mover){.out = malloc(LARGEST), .in = malloc(LARGEST)};
    *thread = (struct flow_thread){.threads = &sizes.threads, .fd = ends[0]};
    if (write(ends[1], data + 1, size - 1) != (ssize_t)size - 1)
        abort();
    shutdown(ends[1], SHUT_WR);
    const bool ok = sizes_work(thread);
    if (ok ? size < 1 + HEADER_SIZE : !thread->failure.kind)
        abort();
    /* Each received message has a byte at least, and each sent one answers one. */
    if (sizes.movers[0].messages > 2 * size)
        abort();
    free(sizes.movers[0].out);
    free(sizes.movers[0].in);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
