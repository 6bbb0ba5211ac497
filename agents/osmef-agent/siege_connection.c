#include "siege_connection.h"

#include "clock.h"
#include "errors.h"
#include "tcpinfo.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

bool connection_open(struct siege_connection *connection)
{
    const int on = 1;
    connection->source.fd =
        socket(siege.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->source.fd < 0)
        return false;
    connection->established = connection->reused = connection->readable = connection->ends = false;
    setsockopt(connection->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(connection->source.fd, (const struct sockaddr *)&siege.address,
                   siege.address_size) == 0 ||
           errno == EINPROGRESS;
}

/* Ends the current request and records it. */
static void end_request(struct siege_worker *b, struct siege_connection *connection,
                        enum request_error error)
{
    struct siege_request *asked = &siege.requests[connection->asked];
    asked->duration_ns = now_ns() - siege.start_ns - asked->start_ns;
    asked->error = (uint8_t)error;
    if (error == REQUEST_OK)
        histogram_add(&b->counts.answered, asked->duration_ns);
    if (error != REQUEST_OK && error != REQUEST_STATUS)
        loop_drop(&b->loop, &connection->source);
    connection->asked = -1;
    b->idle[b->idle_count++] = (int)(connection - b->connections);
}

/* ping's answer: {"length", "code", "retries", "duration"}. */
static enum request_error read_ping(struct siege_connection *connection,
                                    struct siege_request *asked)
{
    struct json_object json;
    const char *problem =
        connection->length > PING_ANSWER
            ? "too long"
            : json_parse(connection->answer, (size_t)connection->answer_size, &json);
    const struct json_member *length = problem ? NULL : json_find(&json, "length");
    const struct json_member *code = problem ? NULL : json_find(&json, "code");
    const struct json_member *retries = problem ? NULL : json_find(&json, "retries");
    const struct json_member *duration = problem ? NULL : json_find(&json, "duration");
    if (!length || !code || !retries || !duration || length->type != JSON_NUMBER ||
        code->type != JSON_NUMBER || retries->type != JSON_NUMBER || duration->type != JSON_NUMBER)
        return REQUEST_PROTOCOL;
    if (!(length->number >= 0 && length->number < 1e15 && code->number >= 100 &&
          code->number < 1000 && retries->number >= 0 && retries->number < 1e9 &&
          duration->number >= 0 && duration->number < 1e9))
        return REQUEST_PROTOCOL;
    asked->length = (int64_t)length->number;
    asked->code = (int16_t)code->number;
    asked->retries = (int32_t)retries->number;
    asked->relay_ns = (int64_t)(duration->number * 1e6);
    return asked->code == 200 ? REQUEST_OK : REQUEST_STATUS;
}

/* The answer is complete. `excess`: more data follows than was requested. */
static void complete(struct siege_worker *b, struct siege_connection *connection, bool excess)
{
    struct siege_request *asked = &siege.requests[connection->asked];
    asked->code = (int16_t)connection->response.status;
    asked->length = connection->length;
    enum request_error error = connection->response.status == 200 ? REQUEST_OK : REQUEST_STATUS;
    /* ping reports its failures in JSON; other errors are those of HTTP. */
    if (siege.asks_ping && (error == REQUEST_OK || connection->response.status == 503)) {
        const enum request_error relayed = read_ping(connection, asked);
        if (relayed == REQUEST_PROTOCOL)
            asked->length = UNKNOWN;
        if (error == REQUEST_OK)
            error = relayed;
    }
    if (excess || connection->ends || !siege.params.keep_alive ||
        !http_persists(&connection->response.framing) ||
        connection->body.state == HTTP_BODY_TO_THE_END)
        loop_drop(&b->loop, &connection->source);
    connection->reused = true;
    end_request(b, connection, error);
}

/* Reads the head, after interim responses (1xx). Returns its size, HTTP_BAD or HTTP_MORE. */
static int take_head(struct siege_connection *connection, const char *data, int size)
{
    int used = 0, got;
    while ((got = http_read_response(data + used, (size_t)(size - used), &connection->response)) >
           0) {
        used += got;
        if (connection->response.status < 200)
            continue;
        connection->has_head = true;
        connection->body = http_response_body(&connection->response, false);
        return used;
    }
    return got;
}

/* Handles received data: the request ends, or more data is needed. */
static void take(struct siege_worker *b, struct siege_connection *connection, int size)
{
    int at = 0;
    if (!connection->has_head) {
        at = take_head(connection, b->buffer, size);
        if (at == HTTP_MORE && size < HTTP_HEAD_SIZE) {
            memcpy(connection->carry, b->buffer, (size_t)size);
            connection->carried = size;
            return;
        }
        if (at < 0) {
            end_request(b, connection, REQUEST_PROTOCOL);
            return;
        }
    }
    while (at < size && connection->body.state != HTTP_BODY_DONE) {
        struct http_text piece;
        const int got =
            http_take_body(&connection->body, b->buffer + at, (size_t)(size - at), &piece);
        if (got < 0) {
            end_request(b, connection, REQUEST_PROTOCOL);
            return;
        }
        at += got;
        connection->length += (int64_t)piece.size;
        if (siege.asks_ping && connection->length <= PING_ANSWER) {
            memcpy(connection->answer + connection->answer_size, piece.at, piece.size);
            connection->answer_size += (int)piece.size;
        }
    }
    if (connection->body.state == HTTP_BODY_DONE)
        complete(b, connection, at < size);
}

static void push(struct siege_worker *b, struct siege_connection *connection);

/* Sends the current request on a new connection. */
static void connect_and_send(struct siege_worker *b, struct siege_connection *connection)
{
    b->counts.connections++;
    connection->request_sent = 0;
    if (connection_open(connection) && loop_watch(&b->loop, &connection->source)) {
        push(b, connection);
    } else {
        if (is_resource_error(errno))
            atomic_store(&siege.lack, errno);
        end_request(b, connection, REQUEST_CONNECT);
    }
}

/* The connection has ended. A server may close a kept one before it has read the next request,
 * which then is sent again (RFC 9112, section 9.3.1), with the same due time. */
static void broken(struct siege_worker *b, struct siege_connection *connection)
{
    if (connection->reused && !connection->received) {
        loop_drop(&b->loop, &connection->source);
        connect_and_send(b, connection);
    } else {
        end_request(b, connection, connection->established ? REQUEST_CLOSED : REQUEST_CONNECT);
    }
}

static void push(struct siege_worker *b, struct siege_connection *connection)
{
    const size_t left = (size_t)(connection->request_size - connection->request_sent);
    const ssize_t n = send(connection->source.fd, connection->request + connection->request_sent,
                           left, MSG_NOSIGNAL);
    if (n > 0) {
        connection->established = true;
        connection->request_sent += (int)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        broken(b, connection);
    }
}

static void receive(struct siege_worker *b, struct siege_connection *connection)
{
    while (connection->asked >= 0 && connection->readable) {
        memcpy(b->buffer, connection->carry, (size_t)connection->carried);
        const size_t space = WORKER_BUFFER - (size_t)connection->carried;
        const ssize_t n = recv(connection->source.fd, b->buffer + connection->carried, space, 0);
        if (n > 0) {
            const int size = connection->carried + (int)n;
            connection->carried = 0;
            connection->received = true;
            connection->readable = connection->ends || (size_t)n == space;
            b->counts.bytes += (uint64_t)n;
            take(b, connection, size);
        } else if (n < 0 && errno == EAGAIN) {
            connection->readable = false;
        } else if (n == 0 && connection->has_head &&
                   connection->body.state == HTTP_BODY_TO_THE_END) {
            complete(b, connection, false);
        } else if (n == 0 || errno != EINTR) {
            broken(b, connection);
        }
    }
}

static void write_request(struct siege_connection *connection, int32_t size)
{
    char digits[12];
    int count = 0;
    memcpy(connection->request, siege.before, (size_t)siege.before_size);
    char *at = connection->request + siege.before_size;
    do
        digits[count++] = (char)('0' + size % 10);
    while (siege.sized && (size /= 10));
    while (siege.sized && count)
        *at++ = digits[--count];
    memcpy(at, siege.behind, (size_t)siege.behind_size);
    connection->request_size = (int)(at - connection->request) + siege.behind_size;
}

void connection_ask(struct siege_worker *b, struct siege_connection *connection, int64_t number)
{
    struct siege_request *asked = &siege.requests[number];
    connection->asked = number;
    connection->due_ns = now_ns() + seconds_ns(siege.params.timeout_s);
    if (connection->due_ns < b->check_ns)
        b->check_ns = connection->due_ns;
    connection->has_head = connection->received = false;
    connection->length = 0;
    connection->answer_size = connection->carried = connection->request_sent = 0;
    asked->relay_ns = asked->length = UNKNOWN;
    asked->retries = asked->code = UNKNOWN;
    write_request(connection, asked->size);
    if (connection->source.fd < 0)
        connect_and_send(b, connection);
    else
        push(b, connection);
}

void connection_late(struct siege_worker *b, struct siege_connection *connection)
{
    end_request(b, connection, REQUEST_TIMEOUT);
}

void connection_ready(struct siege_worker *b, struct siege_connection *connection, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        connection->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        connection->ends = true;
    if (connection->asked < 0) {
        if (connection->readable) /* unexpected data, or the end: the server is closing it */
            loop_drop(&b->loop, &connection->source);
        return;
    }
    if (connection->request_sent < connection->request_size)
        push(b, connection);
    if (connection->asked >= 0)
        receive(b, connection);
}
