#include "payload.h"

#include "anonymous_file.h"
#include "bytes.h"
#include "pages.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

/* The size of one call where one end does not copy: it stays in the cache of the other end's CPU.
 * On loopback and between namespaces a file is first read by the receiver, and 512 KiB fell out of
 * its cache. MSG_ZEROCOPY is no better there: the kernel copies data for a local socket. */
#define SMALL_SIZE (128 * 1024)

/* The buffers of all receivers together; each has at least SMALLEST_BUFFER. 16 MiB measured no
 * faster at 50 and 128 flows, 4 MiB slower. */
#define BUFFERS_SIZE (8 * 1024 * 1024)
#define LARGEST_BUFFER (512 * 1024)
#define SMALLEST_BUFFER (64 * 1024)

/* All senders read the same payload; each receiver writes to a buffer of its own. */
static _Alignas(4096) unsigned char payload[PAYLOAD_SIZE];
static int payload_file = -1; /* the same, to be sent without a copy */
static unsigned char *received;
static size_t received_size;  /* of each */
static size_t received_total; /* of all */
static int receive_flags;
static size_t send_size;

static bool open_zerocopy(struct job *job)
{
    payload_file = anonymous_file(payload, SMALL_SIZE);
    return payload_file >= 0 ||
           job_fail(job, "resource", -1,
                    "no file to send from: %s; use the mode copy, or make room in /var/tmp",
                    strerror(errno));
}

static bool map_buffers(struct bulk *bulk)
{
    const size_t count = (size_t)bulk->ways[RECEIVER].count;
    received_size = BUFFERS_SIZE / count;
    if (received_size > LARGEST_BUFFER)
        received_size = LARGEST_BUFFER;
    if (received_size < SMALLEST_BUFFER)
        received_size = SMALLEST_BUFFER;
    received_total = received_size * count;
    received = threads_map(&bulk->threads, received_total, MAP_POPULATE);
    return received;
}

bool payload_open(struct bulk *bulk)
{
    const int mode = bulk->params.mode;
    receive_flags = mode == MODE_DISCARD || mode == MODE_ZEROCOPY_DISCARD ? MSG_TRUNC : 0;
    /* With a small window only a blocking call lets the receiver read what there is. */
    const bool copies =
        mode == MODE_COPY || (mode == MODE_DISCARD && bulk->params.link.options.window);
    send_size = copies ? PAYLOAD_SIZE : SMALL_SIZE;
    if (threads_send(&bulk->threads))
        fill_random(payload, sizeof payload);
    if (threads_send(&bulk->threads) && (mode == MODE_ZEROCOPY || mode == MODE_ZEROCOPY_DISCARD) &&
        !open_zerocopy(bulk->threads.job))
        return false;
    return bulk->ways[RECEIVER].count == 0 || map_buffers(bulk);
}

void payload_close(void)
{
    if (payload_file >= 0)
        close(payload_file);
    payload_file = -1;
    if (received)
        munmap(received, received_total);
    received = NULL;
}

bool payload_is_file(void)
{
    return payload_file >= 0;
}

ssize_t payload_send(const struct flow *flow, size_t most)
{
    off_t from = 0;
    if (most > send_size)
        most = send_size;
    if (payload_file >= 0)
        return sendfile(flow->fd, payload_file, &from, most);
    return payload_send_copy(flow->fd, most, 0);
}

ssize_t payload_send_copy(int fd, size_t most, int flags)
{
    return send(fd, payload, most, MSG_NOSIGNAL | flags);
}

ssize_t payload_receive(const struct flow *flow, int flags)
{
    return recv(flow->fd, received + (size_t)flow->index * received_size, received_size,
                receive_flags | flags);
}
