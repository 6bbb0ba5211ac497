#include "program_output.h"

#include "clock.h"
#include "events.h"
#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (48 * 1024)
#define BASE64_SIZE (CHUNK / 3 * 4)
/* Small writes are coalesced: after a read of less than COALESCE_BYTES the stream is paused for
 * this time, so that frequent small writes do not cost an event each. */
#define COALESCE_BYTES 4096
#define COALESCE_NS (NS_PER_S / 50)

void output_begin(struct program_output *output, struct job *job, const int fds[STREAMS],
                  uint64_t limit, const char *pattern)
{
    memset(output, 0, sizeof *output);
    output->job = job;
    output->streams[0].name = "stdout";
    output->streams[1].name = "stderr";
    output->streams[2].name = "channel";
    output->streams[2].is_channel = true;
    for (int i = 0; i < STREAMS; i++)
        output->streams[i].fd = fds[i];
    output->limit = limit;
    output->pattern = pattern;
    output->matched = !*pattern;
}

void output_watch(const struct program_output *output, struct pollfd fds[STREAMS],
                  int64_t *until_ns)
{
    const int64_t now = now_ns();
    for (int i = 0; i < STREAMS; i++) {
        const struct output_stream *stream = &output->streams[i];
        const bool paused = stream->pause_until_ns > now;
        fds[i] = (struct pollfd){.fd = paused ? -1 : stream->fd, .events = POLLIN};
        if (paused && stream->fd >= 0 && stream->pause_until_ns < *until_ns)
            *until_ns = stream->pause_until_ns;
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

static void send_event(const struct program_output *output, const struct output_stream *stream,
                       const char *data, size_t size)
{
    static char text[BASE64_SIZE + 1];
    write_base64((const unsigned char *)data, size, text);
    event_begin(output->job, "output");
    out_format(",\"stream\":\"%s\",\"at_s\":%.6f,\"data\":\"%s\"", stream->name,
               ns_seconds(now_ns() - output->start_ns), text);
    event_end();
}

/* Searches the pattern in the bytes read and those kept before; there is space for the latter in
 * front of `data`. */
static void search(struct program_output *output, struct output_stream *stream, char *data,
                   size_t size)
{
    const size_t wanted = strlen(output->pattern);
    char *const from = data - stream->kept_size;
    const size_t all = stream->kept_size + size;
    memcpy(from, stream->kept, stream->kept_size);
    output->matched = output->matched || memmem(from, all, output->pattern, wanted);
    stream->kept_size = wanted ? wanted - 1 : 0;
    if (stream->kept_size > all)
        stream->kept_size = all;
    memcpy(stream->kept, from + all - stream->kept_size, stream->kept_size);
}

static void keep_tail(struct program_output *output, const char *data, size_t size)
{
    if (size > TAIL_SIZE) {
        data += size - TAIL_SIZE;
        size = TAIL_SIZE;
    }
    const size_t kept = output->tail_size + size > TAIL_SIZE ? TAIL_SIZE - size : output->tail_size;
    memmove(output->tail, output->tail + output->tail_size - kept, kept);
    memcpy(output->tail + kept, data, size);
    output->tail_size = kept + size;
}

static uint64_t bytes_left(const struct program_output *output)
{
    uint64_t left = output->limit;
    for (int i = 0; i < STREAMS; i++)
        left -= output->streams[i].bytes;
    return left;
}

/* Reads once from a stream. Returns false when no data is available. */
static bool read_stream(struct program_output *output, struct output_stream *stream)
{
    static char buffer[READY_LINE_SIZE + CHUNK];
    char *const data = buffer + READY_LINE_SIZE;
    const uint64_t left = bytes_left(output);
    const ssize_t got = read(stream->fd, data, CHUNK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        stream->fd = -1;
        return false;
    }
    const size_t size = (size_t)got < left ? (size_t)got : (size_t)left;
    if (!stream->is_channel) {
        search(output, stream, data, size);
        keep_tail(output, data, size);
    }
    stream->bytes += size;
    stream->pause_until_ns =
        got < COALESCE_BYTES && !stream->is_channel ? now_ns() + COALESCE_NS : 0;
    if (size)
        send_event(output, stream, data, size);
    if (size < (size_t)got)
        job_fail(output->job, "output", -1, "the program printed more than %llu bytes%s",
                 (unsigned long long)output->limit, output_tail(output));
    return true;
}

void output_read(struct program_output *output, const struct pollfd fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++)
        if (fds[i].revents && output->streams[i].fd >= 0 && !output->job->failure.kind)
            read_stream(output, &output->streams[i]);
}

void output_drain(struct program_output *output)
{
    for (int i = 0; i < STREAMS; i++)
        while (output->streams[i].fd >= 0 && !output->job->failure.kind)
            if (!read_stream(output, &output->streams[i]))
                break;
}

const char *output_tail(const struct program_output *output)
{
    static char text[2 * TAIL_SIZE];
    if (!output->tail_size)
        return "; it printed nothing";
    char *at = text + snprintf(text, sizeof text, "; the end of what it printed: ");
    const char *const begin = at;
    for (size_t i = 0; i < output->tail_size; i++)
        *at++ = (unsigned char)output->tail[i] < ' ' ? ' ' : output->tail[i];
    while (at > begin && at[-1] == ' ')
        at--;
    *at = '\0';
    return at > begin ? text : "; it printed nothing that can be shown";
}
