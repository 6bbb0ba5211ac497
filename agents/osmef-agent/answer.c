/* The answers of a server: a head, and text or pong's pattern behind it. */
#include "anonymous_file.h"
#include "clock.h"
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

/* "ooo...ng": any part of pong's body without its first byte, "p", is a part of this text. */
#define MIDDLE (256 * 1024)
static char pattern[MIDDLE + 2];
#define VECTORS 8

/* Long answers to many clients are sent with sendfile(2) from a file with the middle of the body:
 * between namespaces, with 50 clients of 100 kB, copies took half as much CPU time again at both
 * ends. The file must be sent from the beginning of a page: data from the middle of a page saved
 * nothing. A separate write of the head saved the second half. With 10 clients copies are faster:
 * they stay in the CPU's cache, and need one system call instead of three. */
#define LONG_ANSWER (64 * 1024)
#define LONG_ANSWERS (2 * 1024 * 1024) /* of all clients together */
#define PAGE 4096
static int middle_file = -1;

__attribute__((constructor)) static void fill_pattern(void)
{
    memset(pattern, 'o', sizeof pattern);
    memcpy(pattern + MIDDLE, "ng", 2);
}

void answers_open(void)
{
    middle_file = anonymous_file(pattern, MIDDLE);
}

void answers_close(void)
{
    if (middle_file >= 0)
        close(middle_file);
    middle_file = -1;
}

struct text {
    char *at;
};

static void append(struct text *text, const char *more)
{
    const size_t size = strlen(more);
    memcpy(text->at, more, size);
    text->at += size;
}

static void append_number(struct text *text, int64_t value)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        *text->at++ = digits[--count];
}

/* The Date field (RFC 9110, section 6.6.1), formatted once a second by each thread. */
static const char *date_field(void)
{
    static _Thread_local time_t made;
    static _Thread_local char field[64];
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const time_t now = time(NULL);
    struct tm utc;
    if (now != made && gmtime_r(&now, &utc)) {
        snprintf(field, sizeof field, "\r\nDate: %.3s, %02d %.3s %d %02d:%02d:%02d GMT",
                 days + 3 * utc.tm_wday, utc.tm_mday, months + 3 * utc.tm_mon, utc.tm_year + 1900,
                 utc.tm_hour, utc.tm_min, utc.tm_sec);
        made = now;
    }
    return field;
}

/* Writes the head without the framing of the body. */
static struct text begin_head(struct client *client, const char *status)
{
    struct text out = {client->text};
    append(&out, "HTTP/1.1 ");
    append(&out, status);
    append(&out, date_field());
    if (client->closing)
        append(&out, "\r\nConnection: close");
    else if (client->minor == 0)
        append(&out, "\r\nConnection: keep-alive");
    return out;
}

/* Ends the head. The first byte of the pattern follows it directly. */
static void end_answer(struct client *client, struct text *out, int64_t pattern_size)
{
    if (pattern_size)
        *out->at++ = 'p';
    client->text_size = (int)(out->at - client->text);
    client->pattern = pattern_size ? pattern_size - 1 : 0;
    client->sent = 0;
}

void client_answer(struct client *client, const char *status, const char *type, const char *text,
                   int64_t pattern_size)
{
    struct text out = begin_head(client, status);
    if (strncmp(status, "405", 3) == 0)
        append(&out, "\r\nAllow: GET, HEAD");
    append(&out, "\r\nContent-Type: ");
    append(&out, type);
    append(&out, "\r\nContent-Length: ");
    append_number(&out, text ? (int64_t)strlen(text) : pattern_size);
    append(&out, "\r\n\r\n");
    if (text && !client->to_head)
        append(&out, text);
    end_answer(client, &out, client->to_head || text ? 0 : pattern_size);
}

void client_relay_head(struct client *client, int status, const struct http_framing *framing)
{
    char line[16];
    snprintf(line, sizeof line, "%d %s", status, status == 200 ? "OK" : "");
    struct text out = begin_head(client, line);
    append(&out, "\r\nContent-Type: text/plain");
    if (framing->chunked)
        append(&out, "\r\nTransfer-Encoding: chunked");
    if (framing->length >= 0) {
        append(&out, "\r\nContent-Length: ");
        append_number(&out, framing->length);
    }
    append(&out, "\r\n\r\n");
    end_answer(client, &out, 0);
}

/* The next bytes of the pattern, of which so many are left: its middle or its end. */
static struct iovec pattern_part(int64_t left)
{
    if (left <= MIDDLE + 2)
        return (struct iovec){pattern + sizeof pattern - left, (size_t)left};
    return (struct iovec){pattern, MIDDLE};
}

static int fill_vectors(const struct client *client, struct iovec *vectors)
{
    int count = 0;
    int64_t at = client->sent;
    if (at < client->text_size) {
        vectors[count++] =
            (struct iovec){(char *)client->text + at, (size_t)(client->text_size - at)};
        at = client->text_size;
    }
    for (int64_t offset = at - client->text_size; offset < client->pattern && count < VECTORS;) {
        vectors[count] = pattern_part(client->pattern - offset);
        offset += (int64_t)vectors[count++].iov_len;
    }
    return count;
}

/* Sends the next part. Returns as writev(2). */
static ssize_t send_some(const struct client *client, int clients)
{
    struct iovec vectors[VECTORS];
    const int fd = client->source.fd;
    const int64_t head = client->text_size - client->sent;
    const int64_t left = client->pattern + head; /* of the pattern, after the head */
    off_t from = 0;
    const bool many = client->pattern >= LONG_ANSWER && client->pattern * clients >= LONG_ANSWERS;
    if (middle_file < 0 || !many || (head <= 0 && left < PAGE + 2))
        return writev(fd, vectors, fill_vectors(client, vectors));
    if (head > 0)
        return write(fd, client->text + client->sent, (size_t)head);
    const int64_t most = left - 2 < MIDDLE ? left - 2 : MIDDLE;
    return sendfile(fd, middle_file, &from, (size_t)most & -PAGE);
}

int answer_send(struct client *client, int clients, int64_t now, _Atomic uint64_t *bytes)
{
    while (client->sent < client->text_size + client->pattern) {
        const ssize_t n = send_some(client, clients);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        client->sent += n;
        client->due_ns = now + SERVER_SEND_S * NS_PER_S;
        server_count(bytes, (uint64_t)n);
    }
    return 1;
}
