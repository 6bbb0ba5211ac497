#include "gun.h"

#include "clock.h"
#include "tcpinfo.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

bool gun_connect(struct gun *gun)
{
    const int on = 1;
    gun->source.fd = socket(siege.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (gun->source.fd < 0)
        return false;
    gun->established = gun->reused = gun->readable = gun->ends = false;
    setsockopt(gun->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(gun->source.fd, (const struct sockaddr *)&siege.address, siege.address_size) ==
               0 ||
           errno == EINPROGRESS;
}

/* Ends the request in hand and records it. */
static void record(struct barrage *b, struct gun *gun, enum shot_error error)
{
    struct shot *shot = &siege.shots[gun->shot];
    shot->duration_ns = now_ns() - siege.start_ns - shot->start_ns;
    shot->error = (uint8_t)error;
    if (error == SHOT_OK)
        histogram_add(&b->counts.answered, shot->duration_ns);
    if (error != SHOT_OK && error != SHOT_STATUS)
        loop_drop(&b->loop, &gun->source);
    gun->shot = -1;
    b->idle[b->idle_count++] = (int)(gun - b->guns);
}

/* ping's answer: {"length", "code", "retries", "duration"}. */
static enum shot_error read_ping(struct gun *gun, struct shot *shot)
{
    struct json_object json;
    const char *problem = gun->length > GUN_ANSWER
                              ? "too long"
                              : json_parse(gun->answer, (size_t)gun->answer_size, &json);
    const struct json_member *length = problem ? NULL : json_find(&json, "length");
    const struct json_member *code = problem ? NULL : json_find(&json, "code");
    const struct json_member *retries = problem ? NULL : json_find(&json, "retries");
    const struct json_member *duration = problem ? NULL : json_find(&json, "duration");
    if (!length || !code || !retries || !duration || length->type != JSON_NUMBER ||
        code->type != JSON_NUMBER || retries->type != JSON_NUMBER || duration->type != JSON_NUMBER)
        return SHOT_PROTOCOL;
    if (!(length->number >= 0 && length->number < 1e15 && code->number >= 100 &&
          code->number < 1000 && retries->number >= 0 && retries->number < 1e9 &&
          duration->number >= 0 && duration->number < 1e9))
        return SHOT_PROTOCOL;
    shot->length = (int64_t)length->number;
    shot->code = (int16_t)code->number;
    shot->retries = (int32_t)retries->number;
    shot->relay_ns = (int64_t)(duration->number * 1e6);
    return shot->code == 200 ? SHOT_OK : SHOT_STATUS;
}

/* The answer is complete. `excess`: something follows that nobody has asked for. */
static void complete(struct barrage *b, struct gun *gun, bool excess)
{
    struct shot *shot = &siege.shots[gun->shot];
    shot->code = (int16_t)gun->response.status;
    shot->length = gun->length;
    enum shot_error error = gun->response.status == 200 ? SHOT_OK : SHOT_STATUS;
    /* ping says why it failed in its JSON; other errors are those of HTTP. */
    if (siege.asks_ping && (error == SHOT_OK || gun->response.status == 503)) {
        const enum shot_error told = read_ping(gun, shot);
        if (told == SHOT_PROTOCOL)
            shot->length = UNKNOWN;
        if (error == SHOT_OK)
            error = told;
    }
    if (excess || gun->ends || !siege.params.keep_alive || !http_persists(&gun->response.framing) ||
        gun->body.state == HTTP_BODY_TO_THE_END)
        loop_drop(&b->loop, &gun->source);
    gun->reused = true;
    record(b, gun, error);
}

/* Takes a head off the buffer, behind those that only say "go on". Returns its size or why not. */
static int take_head(struct gun *gun, const char *data, int size)
{
    int used = 0, got;
    while ((got = http_read_response(data + used, (size_t)(size - used), &gun->response)) > 0) {
        used += got;
        if (gun->response.status < 200)
            continue;
        gun->has_head = true;
        gun->body = http_response_body(&gun->response, false);
        return used;
    }
    return got;
}

/* Looks at what has come: the request ends, or more is needed. */
static void take(struct barrage *b, struct gun *gun, int size)
{
    int at = 0;
    if (!gun->has_head) {
        at = take_head(gun, b->buffer, size);
        if (at == HTTP_MORE && size < HTTP_HEAD_SIZE) {
            memcpy(gun->carry, b->buffer, (size_t)size);
            gun->carried = size;
            return;
        }
        if (at < 0) {
            record(b, gun, SHOT_PROTOCOL);
            return;
        }
    }
    while (at < size && gun->body.state != HTTP_BODY_DONE) {
        struct http_text piece;
        const int got = http_take_body(&gun->body, b->buffer + at, (size_t)(size - at), &piece);
        if (got < 0) {
            record(b, gun, SHOT_PROTOCOL);
            return;
        }
        at += got;
        gun->length += (int64_t)piece.size;
        if (siege.asks_ping && gun->length <= GUN_ANSWER) {
            memcpy(gun->answer + gun->answer_size, piece.at, piece.size);
            gun->answer_size += (int)piece.size;
        }
    }
    if (gun->body.state == HTTP_BODY_DONE)
        complete(b, gun, at < size);
}

static void push(struct barrage *b, struct gun *gun);

/* Sends the request in hand on a new connection. */
static void open_fire(struct barrage *b, struct gun *gun)
{
    b->counts.connections++;
    gun->request_sent = 0;
    if (gun_connect(gun) && loop_watch(&b->loop, &gun->source)) {
        push(b, gun);
    } else {
        if (siege_lacks(errno))
            atomic_store(&siege.lack, errno);
        record(b, gun, SHOT_CONNECT);
    }
}

/* The connection has ended. A server may close one that was kept before it has read the next
 * request, which then is sent again (RFC 9112, section 9.3.1); its time goes on. */
static void broken(struct barrage *b, struct gun *gun)
{
    if (gun->reused && !gun->heard) {
        loop_drop(&b->loop, &gun->source);
        open_fire(b, gun);
    } else {
        record(b, gun, gun->established ? SHOT_CLOSED : SHOT_CONNECT);
    }
}

static void push(struct barrage *b, struct gun *gun)
{
    const size_t left = (size_t)(gun->request_size - gun->request_sent);
    const ssize_t n = send(gun->source.fd, gun->request + gun->request_sent, left, MSG_NOSIGNAL);
    if (n > 0) {
        gun->established = true;
        gun->request_sent += (int)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        broken(b, gun);
    }
}

static void receive(struct barrage *b, struct gun *gun)
{
    while (gun->shot >= 0 && gun->readable) {
        memcpy(b->buffer, gun->carry, (size_t)gun->carried);
        const size_t space = BARRAGE_BUFFER - (size_t)gun->carried;
        const ssize_t n = recv(gun->source.fd, b->buffer + gun->carried, space, 0);
        if (n > 0) {
            const int size = gun->carried + (int)n;
            gun->carried = 0;
            gun->heard = true;
            gun->readable = gun->ends || (size_t)n == space;
            b->counts.bytes += (uint64_t)n;
            take(b, gun, size);
        } else if (n < 0 && errno == EAGAIN) {
            gun->readable = false;
        } else if (n == 0 && gun->has_head && gun->body.state == HTTP_BODY_TO_THE_END) {
            complete(b, gun, false);
        } else if (n == 0 || errno != EINTR) {
            broken(b, gun);
        }
    }
}

static void write_request(struct gun *gun, int32_t size)
{
    char digits[12];
    int count = 0;
    memcpy(gun->request, siege.before, (size_t)siege.before_size);
    char *at = gun->request + siege.before_size;
    do
        digits[count++] = (char)('0' + size % 10);
    while (siege.sized && (size /= 10));
    while (siege.sized && count)
        *at++ = digits[--count];
    memcpy(at, siege.behind, (size_t)siege.behind_size);
    gun->request_size = (int)(at - gun->request) + siege.behind_size;
}

void gun_fire(struct barrage *b, struct gun *gun, int64_t number)
{
    struct shot *shot = &siege.shots[number];
    gun->shot = number;
    gun->due_ns = now_ns() + seconds_ns(siege.params.timeout_s);
    if (gun->due_ns < b->check_ns)
        b->check_ns = gun->due_ns;
    gun->has_head = gun->heard = false;
    gun->length = 0;
    gun->answer_size = gun->carried = gun->request_sent = 0;
    shot->relay_ns = shot->length = UNKNOWN;
    shot->retries = shot->code = UNKNOWN;
    write_request(gun, shot->size);
    if (gun->source.fd < 0)
        open_fire(b, gun);
    else
        push(b, gun);
}

void gun_late(struct barrage *b, struct gun *gun)
{
    record(b, gun, SHOT_TIMEOUT);
}

void gun_ready(struct barrage *b, struct gun *gun, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        gun->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        gun->ends = true;
    if (gun->shot < 0) {
        if (gun->readable) /* it has nothing to say now: the server closes it */
            loop_drop(&b->loop, &gun->source);
        return;
    }
    if (gun->request_sent < gun->request_size)
        push(b, gun);
    if (gun->shot >= 0)
        receive(b, gun);
}
