/* HTTP/1.1 heads and bodies (RFC 9112). The parsers of heads are stateless and allocate nothing:
 * they parse from the first byte on and return the size of the head. */
#ifndef OSMEF_HTTP_H
#define OSMEF_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BAD (-1)  /* not HTTP/1 */
#define HTTP_MORE (-2) /* incomplete */

/* The longest head that is accepted, and the size of a connection's buffer. */
#define HTTP_HEAD_SIZE 8192

struct http_text {
    const char *at; /* in the parsed bytes, without a NUL */
    size_t size;
};

/* The framing of the body, and whether the connection persists. */
struct http_framing {
    int minor;      /* HTTP/1.minor */
    int64_t length; /* Content-Length, -1: none */
    bool chunked;
    bool close;      /* the option of Connection */
    bool keep_alive; /* the option of Connection */
    int hosts;       /* number of Host fields; an invalid one counts twice */
};

struct http_request {
    struct http_text method;
    struct http_text target;
    struct http_framing framing;
};

struct http_response {
    int status;
    struct http_framing framing;
};

/* Return the size of the head, HTTP_BAD or HTTP_MORE. Lines may end with LF alone. Ambiguous heads
 * are bad: folded lines, different Content-Lengths, Content-Length with chunks, a transfer coding
 * other than `chunked`. */
int http_read_request(const char *data, size_t size, struct http_request *request);
int http_read_response(const char *data, size_t size, struct http_response *response);

/* Whether the connection stays open after this message (RFC 9112, section 9.3). */
bool http_persists(const struct http_framing *framing);

/* Whether a request has the required single Host field; HTTP/1.0 requires none (RFC 9112, section
 * 3.2). */
bool http_names_host(const struct http_request *request);

/* The path of an origin-form or absolute-form target (RFC 9112, section 3.2), without its query. */
struct http_text http_path(struct http_text target);

/* The number after `prefix` in a path; HTTP_BAD: not a number, HTTP_MORE: larger than `largest`. */
int64_t http_number(struct http_text path, size_t prefix, int64_t largest);

/* The state of reading a body. */
enum http_body_state {
    HTTP_BODY_DONE,
    HTTP_BODY_LENGTH,     /* `left` more bytes */
    HTTP_BODY_TO_THE_END, /* until the connection's end */
    HTTP_CHUNK_SIZE,      /* this and the following: states of a chunked body */
    HTTP_CHUNK_SIZE_DIGITS,
    HTTP_CHUNK_EXTENSION,
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_CR,
    HTTP_CHUNK_LF,
    HTTP_TRAILER_START,
    HTTP_TRAILER_LINE,
    HTTP_TRAILER_END
};

struct http_body {
    enum http_body_state state;
    int64_t left;
};

/* The body after such a head (RFC 9112, section 6.3). */
struct http_body http_request_body(const struct http_request *request);
struct http_body http_response_body(const struct http_response *response, bool to_head);

/* Reads a part of the body: `*piece` is set to contiguous payload in it. Returns how many bytes
 * were used, or HTTP_BAD. To be called again while there are bytes and the body is not done. */
int http_take_body(struct http_body *body, const char *data, size_t size, struct http_text *piece);

#endif
