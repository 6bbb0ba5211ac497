#include "printed.h"

#include "clock.h"
#include "events.h"
#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (48 * 1024)
#define BASE64_SIZE (CHUNK / 3 * 4)
/* A program that prints a little again and again costs an event each time: what follows within this
 * time waits in the pipe. */
#define LITTLE 4096
#define REST_NS (NS_PER_S / 50)

void printed_begin(struct printed *printed, struct job *job, const int fds[STREAMS], uint64_t most,
                   const char *awaited)
{
    memset(printed, 0, sizeof *printed);
    printed->job = job;
    printed->streams[0].name = "stdout";
    printed->streams[1].name = "stderr";
    printed->streams[2].name = "channel";
    printed->streams[2].talks = true;
    for (int i = 0; i < STREAMS; i++)
        printed->streams[i].fd = fds[i];
    printed->most = most;
    printed->awaited = awaited;
    printed->seen = !*awaited;
}

void printed_watch(const struct printed *printed, struct pollfd fds[STREAMS], int64_t *until_ns)
{
    const int64_t now = now_ns();
    for (int i = 0; i < STREAMS; i++) {
        const struct stream *stream = &printed->streams[i];
        const bool rests = stream->rest_until_ns > now;
        fds[i] = (struct pollfd){.fd = rests ? -1 : stream->fd, .events = POLLIN};
        if (rests && stream->fd >= 0 && stream->rest_until_ns < *until_ns)
            *until_ns = stream->rest_until_ns;
    }
}

/* RFC 4648, section 4. */
static void write_base64(const unsigned char *data, size_t size, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const unsigned second = i + 1 < size ? data[i + 1] : 0;
        const unsigned third = i + 2 < size ? data[i + 2] : 0;
        const unsigned bits = (unsigned)data[i] << 16 | second << 8 | third;
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[bits & 63] : '=';
    }
    *out = '\0';
}

static void tell(const struct printed *printed, const struct stream *stream, const char *data,
                 size_t size)
{
    static char text[BASE64_SIZE + 1];
    write_base64((const unsigned char *)data, size, text);
    event_begin(printed->job, "output");
    out_format(",\"stream\":\"%s\",\"at_s\":%.6f,\"data\":\"%s\"", stream->name,
               ns_seconds(now_ns() - printed->start_ns), text);
    event_end();
}

/* Looks for the awaited part of a line in what came, with the bytes before it. `data` has room for
 * these in front. */
static void look_for(struct printed *printed, struct stream *stream, char *data, size_t size)
{
    const size_t wanted = strlen(printed->awaited);
    char *const from = data - stream->kept_size;
    const size_t all = stream->kept_size + size;
    memcpy(from, stream->kept, stream->kept_size);
    printed->seen = printed->seen || memmem(from, all, printed->awaited, wanted);
    stream->kept_size = wanted ? wanted - 1 : 0;
    if (stream->kept_size > all)
        stream->kept_size = all;
    memcpy(stream->kept, from + all - stream->kept_size, stream->kept_size);
}

static void keep_tail(struct printed *printed, const char *data, size_t size)
{
    if (size > TAIL_SIZE) {
        data += size - TAIL_SIZE;
        size = TAIL_SIZE;
    }
    const size_t kept =
        printed->tail_size + size > TAIL_SIZE ? TAIL_SIZE - size : printed->tail_size;
    memmove(printed->tail, printed->tail + printed->tail_size - kept, kept);
    memcpy(printed->tail + kept, data, size);
    printed->tail_size = kept + size;
}

static uint64_t bytes_left(const struct printed *printed)
{
    uint64_t left = printed->most;
    for (int i = 0; i < STREAMS; i++)
        left -= printed->streams[i].bytes;
    return left;
}

/* Reads a piece of a stream. Returns false when there is nothing now. */
static bool take(struct printed *printed, struct stream *stream)
{
    static char room[READY_LINE_SIZE + CHUNK];
    char *const data = room + READY_LINE_SIZE;
    const uint64_t left = bytes_left(printed);
    const ssize_t got = read(stream->fd, data, CHUNK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        stream->fd = -1;
        return false;
    }
    const size_t size = (size_t)got < left ? (size_t)got : (size_t)left;
    if (!stream->talks) {
        look_for(printed, stream, data, size);
        keep_tail(printed, data, size);
    }
    stream->bytes += size;
    stream->rest_until_ns = got < LITTLE && !stream->talks ? now_ns() + REST_NS : 0;
    if (size)
        tell(printed, stream, data, size);
    if (size < (size_t)got)
        job_fail(printed->job, "output", -1, "the program printed more than %llu bytes%s",
                 (unsigned long long)printed->most, printed_tail(printed));
    return true;
}

void printed_take(struct printed *printed, const struct pollfd fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++)
        if (fds[i].revents && printed->streams[i].fd >= 0 && !printed->job->failure.kind)
            take(printed, &printed->streams[i]);
}

void printed_drain(struct printed *printed)
{
    for (int i = 0; i < STREAMS; i++)
        while (printed->streams[i].fd >= 0 && !printed->job->failure.kind)
            if (!take(printed, &printed->streams[i]))
                break;
}

const char *printed_tail(const struct printed *printed)
{
    static char text[2 * TAIL_SIZE];
    if (!printed->tail_size)
        return "; it printed nothing";
    char *at = text + snprintf(text, sizeof text, "; the end of what it printed: ");
    const char *const begin = at;
    for (size_t i = 0; i < printed->tail_size; i++)
        *at++ = (unsigned char)printed->tail[i] < ' ' ? ' ' : printed->tail[i];
    while (at > begin && at[-1] == ' ')
        at--;
    *at = '\0';
    return at > begin ? text : "; it printed nothing that can be shown";
}
