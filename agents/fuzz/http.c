/* The parsers of HTTP heads and bodies. The first byte determines what the rest is, and the size of
 * the pieces of a body. */
#include "../osmef-agent/http.h"

#include <stdlib.h>
#include <string.h>

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Reads a body in pieces. Its counter must not become negative, and each call must make
 * progress. */
static void read_body(struct http_body body, const char *data, size_t size, size_t step)
{
    while (size > 0 && body.state != HTTP_BODY_DONE) {
        struct http_text piece;
        const size_t given = size < step ? size : step;
        const int used = http_take_body(&body, data, given, &piece);
        if (used == HTTP_BAD)
            return;
        check(used > 0 && (size_t)used <= given && body.left >= 0);
        check(piece.at >= data && piece.at + piece.size <= data + used);
        data += used;
        size -= (size_t)used;
    }
}

static void read_request(const char *data, size_t size, size_t step)
{
    struct http_request request;
    const int got = http_read_request(data, size, &request);
    check(got == HTTP_BAD || got == HTTP_MORE || (got > 0 && (size_t)got <= size));
    if (got <= 0)
        return;
    struct http_request again;
    check(http_read_request(data, (size_t)got, &again) == got);
    check(http_read_request(data, (size_t)got - 1, &again) == HTTP_MORE);
    const struct http_text path = http_path(request.target);
    check(path.size <= request.target.size);
    check(http_number(path, 6, 1000) <= 1000);
    (void)http_persists(&request.framing);
    read_body(http_request_body(&request), data + got, size - (size_t)got, step);
}

static void read_response(const char *data, size_t size, size_t step, bool to_head)
{
    struct http_response response;
    const int got = http_read_response(data, size, &response);
    check(got == HTTP_BAD || got == HTTP_MORE || (got > 0 && (size_t)got <= size));
    if (got <= 0)
        return;
    struct http_response again;
    check(http_read_response(data, (size_t)got - 1, &again) == HTTP_MORE);
    check(response.status >= 100 && response.status <= 999);
    read_body(http_response_body(&response, to_head), data + got, size - (size_t)got, step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const size_t step = 1 + (data[0] >> 2);
    /* A copy of exactly this size, so that the sanitizer detects reads beyond it. */
    char *text = malloc(size - 1 ? size - 1 : 1);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    if (data[0] & 1)
        read_response(text, size - 1, step, (data[0] & 2) != 0);
    else
        read_request(text, size - 1, step);
    free(text);
    return 0;
}
