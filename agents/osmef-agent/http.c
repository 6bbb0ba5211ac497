#include "http.h"

#include <string.h>

struct cursor {
    const char *at;
    const char *end;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

/* tchar of RFC 9110, section 5.6.2. */
static bool is_token(char c)
{
    return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Compares with a word in lower case; the text may be in any case. */
static bool is_word(struct http_text text, const char *word)
{
    if (text.size != strlen(word))
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.at[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != word[i])
            return false;
    }
    return true;
}

/* Reads a line without its end. Returns 1, HTTP_BAD or HTTP_MORE. */
static int take_line(struct cursor *c, struct http_text *line)
{
    const char *lf = memchr(c->at, '\n', (size_t)(c->end - c->at));
    const char *stop = lf ? lf : c->end;
    *line = (struct http_text){c->at, (size_t)(stop - c->at)};
    if (lf && line->size && stop[-1] == '\r')
        line->size--;
    for (size_t i = 0; i < line->size; i++) {
        const unsigned char byte = (unsigned char)line->at[i];
        const bool last_cr = byte == '\r' && !lf && i + 1 == line->size;
        if ((byte < 0x20 && byte != '\t' && !last_cr) || byte == 0x7f)
            return HTTP_BAD;
    }
    if (!lf)
        return HTTP_MORE;
    c->at = lf + 1;
    return 1;
}

static struct http_text trimmed(struct http_text text)
{
    while (text.size && (*text.at == ' ' || *text.at == '\t')) {
        text.at++;
        text.size--;
    }
    while (text.size && (text.at[text.size - 1] == ' ' || text.at[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* 18 digits suffice for every length and can't overflow. */
static int64_t number_of(struct http_text text)
{
    int64_t value = 0;
    if (text.size == 0 || text.size > 18)
        return HTTP_BAD;
    for (size_t i = 0; i < text.size; i++) {
        if (!is_digit(text.at[i]))
            return HTTP_BAD;
        value = value * 10 + (text.at[i] - '0');
    }
    return value;
}

static bool take_length(struct http_text value, struct http_framing *framing)
{
    const int64_t length = number_of(value);
    if (length < 0 || (framing->length >= 0 && framing->length != length))
        return false;
    framing->length = length;
    return true;
}

/* Connection is a list of options; only two of them matter here. */
static void take_connection(struct http_text value, struct http_framing *framing)
{
    while (value.size) {
        const char *comma = memchr(value.at, ',', value.size);
        const size_t size = comma ? (size_t)(comma - value.at) : value.size;
        const struct http_text option = trimmed((struct http_text){value.at, size});
        framing->close |= is_word(option, "close");
        framing->keep_alive |= is_word(option, "keep-alive");
        value.at += comma ? size + 1 : size;
        value.size -= comma ? size + 1 : size;
    }
}

/* The characters of a host and a port (RFC 3986, section 3.2), in any order. */
static bool is_host(struct http_text value)
{
    for (size_t i = 0; i < value.size; i++) {
        const char c = value.at[i];
        if (!is_alnum(c) && (!c || !strchr("!$%&'()*+,-.:;=[]_~", c)))
            return false;
    }
    return true;
}

static bool take_field(struct http_text line, struct http_framing *framing)
{
    size_t colon = 0;
    while (colon < line.size && is_token(line.at[colon]))
        colon++;
    if (colon == 0 || colon == line.size || line.at[colon] != ':')
        return false;
    const struct http_text name = {line.at, colon};
    const struct http_text value =
        trimmed((struct http_text){line.at + colon + 1, line.size - colon - 1});
    if (is_word(name, "content-length"))
        return take_length(value, framing);
    if (is_word(name, "host"))
        framing->hosts = framing->hosts || !is_host(value) ? 2 : 1;
    if (is_word(name, "connection"))
        take_connection(value, framing);
    if (is_word(name, "transfer-encoding")) {
        const bool first = !framing->chunked;
        framing->chunked = true;
        return first && is_word(value, "chunked");
    }
    return true;
}

/* Reads the fields up to the empty line. */
static int take_fields(struct cursor *c, struct http_framing *framing)
{
    struct http_text line;
    for (;;) {
        const int got = take_line(c, &line);
        if (got < 0)
            return got;
        if (line.size == 0)
            return framing->chunked && (framing->length >= 0 || framing->minor == 0) ? HTTP_BAD : 1;
        if (!take_field(line, framing))
            return HTTP_BAD;
    }
}

/* Reads "HTTP/1.x" and advances past it. */
static bool take_version(struct http_text *text, struct http_framing *framing)
{
    if (text->size < 8 || memcmp(text->at, "HTTP/1.", 7) != 0 || !is_digit(text->at[7]))
        return false;
    framing->minor = text->at[7] - '0';
    text->at += 8;
    text->size -= 8;
    return true;
}

/* method SP request-target SP HTTP-version */
static bool take_request_line(struct http_text line, struct http_request *request)
{
    const char *end = line.at + line.size;
    const char *at = line.at;
    while (at < end && is_token(*at))
        at++;
    request->method = (struct http_text){line.at, (size_t)(at - line.at)};
    if (at == line.at || at == end || *at++ != ' ')
        return false;
    const char *target = at;
    while (at < end && (unsigned char)(*at - '!') <= '~' - '!') /* with signed and unsigned char */
        at++;
    request->target = (struct http_text){target, (size_t)(at - target)};
    if (at == target || at == end || *at++ != ' ')
        return false;
    struct http_text version = {at, (size_t)(end - at)};
    return take_version(&version, &request->framing) && version.size == 0;
}

/* HTTP-version SP status-code [ SP reason ]: many servers omit the last space. */
static bool take_status_line(struct http_text line, struct http_response *response)
{
    if (!take_version(&line, &response->framing) || line.size < 4 || line.at[0] != ' ' ||
        (line.size > 4 && line.at[4] != ' '))
        return false;
    response->status = (int)number_of((struct http_text){line.at + 1, 3});
    return response->status >= 100;
}

int http_read_request(const char *data, size_t size, struct http_request *request)
{
    struct cursor c = {data, data + size};
    struct http_text line;
    *request = (struct http_request){.framing.length = -1};
    /* A client may send empty lines before a request (RFC 9112, section 2.2). */
    int got;
    do
        got = take_line(&c, &line);
    while (got == 1 && line.size == 0);
    if (got == 1)
        got = take_request_line(line, request) ? take_fields(&c, &request->framing) : HTTP_BAD;
    return got < 0 ? got : (int)(c.at - data);
}

int http_read_response(const char *data, size_t size, struct http_response *response)
{
    struct cursor c = {data, data + size};
    struct http_text line;
    *response = (struct http_response){.framing.length = -1};
    int got = take_line(&c, &line);
    if (got == 1)
        got = take_status_line(line, response) ? take_fields(&c, &response->framing) : HTTP_BAD;
    return got < 0 ? got : (int)(c.at - data);
}

bool http_persists(const struct http_framing *framing)
{
    return !framing->close && (framing->minor > 0 || framing->keep_alive);
}

bool http_names_host(const struct http_request *request)
{
    return request->framing.hosts == 1 ||
           (request->framing.hosts == 0 && request->framing.minor == 0);
}

struct http_text http_path(struct http_text target)
{
    if (target.size > 7 && is_word((struct http_text){target.at, 7}, "http://")) {
        const char *slash = memchr(target.at + 7, '/', target.size - 7);
        target.size = slash ? target.size - (size_t)(slash - target.at) : 0;
        target.at = slash;
    }
    const char *query = target.size ? memchr(target.at, '?', target.size) : NULL;
    if (query)
        target.size = (size_t)(query - target.at);
    return target;
}

int64_t http_number(struct http_text path, size_t prefix, int64_t largest)
{
    int64_t number = 0;
    if (path.size <= prefix)
        return HTTP_BAD;
    for (size_t i = prefix; i < path.size; i++) {
        if (!is_digit(path.at[i]))
            return HTTP_BAD;
        if (number <= largest)
            number = number * 10 + (path.at[i] - '0');
    }
    return number > largest ? HTTP_MORE : number;
}
