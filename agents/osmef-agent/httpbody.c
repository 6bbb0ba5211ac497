/* Bodies of HTTP/1.1 messages: by length, in chunks, or up to the end of the connection. */
#include "http.h"

/* A chunk size with this many hex digits would exceed 2^60 bytes. */
#define LARGEST_CHUNK ((int64_t)1 << 56)

struct http_body http_request_body(const struct http_request *request)
{
    const struct http_framing *framing = &request->framing;
    if (framing->chunked)
        return (struct http_body){HTTP_CHUNK_SIZE, 0};
    if (framing->length > 0)
        return (struct http_body){HTTP_BODY_LENGTH, framing->length};
    return (struct http_body){HTTP_BODY_DONE, 0};
}

struct http_body http_response_body(const struct http_response *response, bool to_head)
{
    const struct http_framing *framing = &response->framing;
    const int status = response->status;
    if (to_head || status < 200 || status == 204 || status == 304)
        return (struct http_body){HTTP_BODY_DONE, 0};
    if (framing->chunked)
        return (struct http_body){HTTP_CHUNK_SIZE, 0};
    if (framing->length < 0)
        return (struct http_body){HTTP_BODY_TO_THE_END, 0};
    return (struct http_body){framing->length ? HTTP_BODY_LENGTH : HTTP_BODY_DONE, framing->length};
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The size of a chunk: at least one hex digit. */
static bool take_size(struct http_body *body, char c)
{
    const int digit = hex_digit(c);
    if (digit >= 0) {
        body->left = body->left * 16 + digit;
        body->state = HTTP_CHUNK_SIZE_DIGITS;
        return body->left < LARGEST_CHUNK;
    }
    if (body->state == HTTP_CHUNK_SIZE || (c != '\r' && c != '\n' && c != ';' && c != ' '))
        return false;
    body->state = HTTP_CHUNK_EXTENSION;
    return true;
}

/* One byte of the lines between the data. Returns false when it is not allowed here. */
static bool take_byte(struct http_body *body, char c)
{
    switch (body->state) {
    case HTTP_CHUNK_SIZE:
    case HTTP_CHUNK_SIZE_DIGITS:
        if (!take_size(body, c))
            return false;
        if (body->state == HTTP_CHUNK_EXTENSION && c == '\n')
            body->state = body->left ? HTTP_CHUNK_DATA : HTTP_TRAILER_START;
        return true;
    case HTTP_CHUNK_EXTENSION:
        if (c == '\n')
            body->state = body->left ? HTTP_CHUNK_DATA : HTTP_TRAILER_START;
        return true;
    case HTTP_CHUNK_CR:
        body->state = c == '\n' ? HTTP_CHUNK_SIZE : HTTP_CHUNK_LF;
        return c == '\r' || c == '\n';
    case HTTP_CHUNK_LF:
        body->state = HTTP_CHUNK_SIZE;
        return c == '\n';
    case HTTP_TRAILER_START:
        body->state = c == '\n' ? HTTP_BODY_DONE : c == '\r' ? HTTP_TRAILER_END : HTTP_TRAILER_LINE;
        return true;
    case HTTP_TRAILER_LINE:
        if (c == '\n')
            body->state = HTTP_TRAILER_START;
        return true;
    default: /* HTTP_TRAILER_END */
        body->state = HTTP_BODY_DONE;
        return c == '\n';
    }
}

/* Payload up to the end of the announced size. */
static int take_data(struct http_body *body, const char *data, size_t size, struct http_text *piece)
{
    const size_t n = (int64_t)size < body->left ? size : (size_t)body->left;
    *piece = (struct http_text){data, n};
    body->left -= (int64_t)n;
    if (body->left == 0)
        body->state = body->state == HTTP_CHUNK_DATA ? HTTP_CHUNK_CR : HTTP_BODY_DONE;
    return (int)n;
}

int http_take_body(struct http_body *body, const char *data, size_t size, struct http_text *piece)
{
    *piece = (struct http_text){data, 0};
    if (body->state == HTTP_BODY_TO_THE_END) {
        piece->size = size;
        return (int)size;
    }
    size_t used = 0;
    while (used < size && body->state != HTTP_BODY_DONE) {
        if (body->state == HTTP_BODY_LENGTH || body->state == HTTP_CHUNK_DATA)
            return (int)used + take_data(body, data + used, size - used, piece);
        if (!take_byte(body, data[used++]))
            return HTTP_BAD;
    }
    return (int)used;
}
