/* HTTP/1.1 heads and bodies (RFC 9112). The parsers of heads keep no state and allocate nothing:
 * they look at the bytes from the first one on and say how many belong to the head. */
#ifndef OSMEF_HTTP_H
#define OSMEF_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_BAD (-1)  /* this is no HTTP/1 */
#define HTTP_MORE (-2) /* so far it is, but its end is missing */

/* The longest head that anybody need send: also the size of a connection's buffer. */
#define HTTP_HEAD_SIZE 8192

struct http_text {
    const char *at; /* in the parsed bytes, without a NUL */
    size_t size;
};

/* What of a head says how long its body is, and what becomes of the connection. */
struct http_framing {
    int minor;      /* HTTP/1.minor */
    int64_t length; /* Content-Length, -1: none */
    bool chunked;
    bool close;      /* an option of Connection */
    bool keep_alive; /* the other one */
    int hosts;       /* fields Host, of which one that names none counts twice */
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

/* Return the size of the head, HTTP_BAD or HTTP_MORE. Lines may end with LF alone. What could be
 * understood in two ways is bad: folded lines, unequal Content-Lengths, one beside chunks, a
 * transfer coding that is not `chunked`. */
int http_read_request(const char *data, size_t size, struct http_request *request);
int http_read_response(const char *data, size_t size, struct http_response *response);

/* Whether the connection stays open after this message (RFC 9112, section 9.3). */
bool http_persists(const struct http_framing *framing);

/* Whether a request has the one Host that it needs; HTTP/1.0 needs none (RFC 9112, section 3.2). */
bool http_names_host(const struct http_request *request);

/* The path of an origin-form or absolute-form target (RFC 9112, section 3.2), without its query. */
struct http_text http_path(struct http_text target);

/* The number that is all of a path from `prefix` on; HTTP_BAD: it is none, HTTP_MORE: it is larger
 * than `largest`. */
int64_t http_number(struct http_text path, size_t prefix, int64_t largest);

/* A body in the reading: how it is framed, and what of it is still to come. */
enum http_body_state {
    HTTP_BODY_DONE,
    HTTP_BODY_LENGTH,     /* `left` bytes */
    HTTP_BODY_TO_THE_END, /* until the connection's end */
    HTTP_CHUNK_SIZE,      /* and the states of a chunked body */
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

/* The body that follows such a head (RFC 9112, section 6.3). */
struct http_body http_request_body(const struct http_request *request);
struct http_body http_response_body(const struct http_response *response, bool to_head);

/* Takes bytes off the body: `*piece` becomes the payload found, at most one run of it. Returns how
 * many bytes were used, or HTTP_BAD. Call it again while bytes and the body last. */
int http_take_body(struct http_body *body, const char *data, size_t size, struct http_text *piece);

#endif
