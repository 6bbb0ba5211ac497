/* What a server's client is sent: a head, and text or pong's pattern behind it. */
#include "clock.h"
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

/* "p", many times "o", "ng": any part of the body lies somewhere in these bytes. */
#define MIDDLE (256 * 1024)
static char pattern[1 + MIDDLE + 2];
#define VECTORS 8

__attribute__((constructor)) static void fill_pattern(void)
{
    memset(pattern, 'o', sizeof pattern);
    pattern[0] = 'p';
    memcpy(pattern + 1 + MIDDLE, "ng", 2);
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

/* The time of an answer (RFC 9110, section 6.6.1), made once a second by each thread. */
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

/* Everything of a head but its framing. */
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

static void end_answer(struct client *client, const struct text *out, int64_t pattern_size)
{
    client->text_size = (int)(out->at - client->text);
    client->pattern = pattern_size;
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

/* Adds the pattern's bytes from `offset` on: its beginning, its middle or its end. */
static struct iovec pattern_part(int64_t size, int64_t offset)
{
    const int64_t left = size - offset;
    if (offset == 0) {
        const int64_t begin = size - 2 < 1 + MIDDLE ? size - 2 : 1 + MIDDLE;
        return (struct iovec){pattern, (size_t)begin};
    }
    if (left <= MIDDLE + 2)
        return (struct iovec){pattern + sizeof pattern - left, (size_t)left};
    return (struct iovec){pattern + 1, MIDDLE};
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
        vectors[count] = pattern_part(client->pattern, offset);
        offset += (int64_t)vectors[count++].iov_len;
    }
    return count;
}

int client_send(struct loop *loop, struct client *client)
{
    struct iovec vectors[VECTORS];
    while (client->sent < client->text_size + client->pattern) {
        const int count = fill_vectors(client, vectors);
        const ssize_t n = writev(client->source.fd, vectors, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0) {
            client_drop(loop, client, false);
            return -1;
        }
        client->sent += n;
        client->due_ns = loop->now_ns + SERVER_SEND_S * NS_PER_S;
        server_count(&server_counts_of(loop)->bytes, (uint64_t)n);
    }
    return 1;
}
