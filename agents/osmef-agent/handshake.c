#include "handshake.h"

#include "clock.h"
#include "wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 256
#define MAX_PENDING 256
#define HELLO_NS (2 * NS_PER_S)

/* A connection that has not said all of its header yet. */
struct pending {
    int fd;
    int64_t until_ns;
    size_t used;
    unsigned char header[HEADER_SIZE];
};

/* The oldest comes first. */
struct waiting_room {
    int count;
    struct pending pending[MAX_PENDING];
    int admitted;
};

enum { CONTROL_SLOT, LISTEN_SLOT, FIRST_SLOT, SLOTS = FIRST_SLOT + MAX_PENDING + MAX_FLOWS };

/* Takes one out of the room and returns its descriptor. */
static int leave(struct waiting_room *room, int index)
{
    const int fd = room->pending[index].fd;
    room->count--;
    memmove(&room->pending[index], &room->pending[index + 1],
            sizeof *room->pending * (size_t)(room->count - index));
    return fd;
}

static void refuse(struct job *job, struct waiting_room *room, int index)
{
    close(leave(room, index));
    job->refused++;
}

static bool admit(struct job *job, struct waiting_room *room, int index)
{
    const struct pending *pending = &room->pending[index];
    const int number = wire_check(&job->params, pending->header);
    const char answer = ADMITTED;
    if (number < 0 || job->flows[number].fd >= 0)
        return false;
    wire_linger_reset(pending->fd, true);
    if (send(pending->fd, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return false;
    job->flows[number].fd = leave(room, index);
    room->admitted++;
    return true;
}

/* Reads what a pending connection says, and admits or refuses it once that is clear. */
static void hear(struct job *job, struct waiting_room *room, int index)
{
    struct pending *pending = &room->pending[index];
    const ssize_t n = recv(pending->fd, pending->header + pending->used,
                           HEADER_SIZE - pending->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        pending->used += (size_t)n;
        if (pending->used < HEADER_SIZE)
            return;
        if (admit(job, room, index))
            return;
    }
    refuse(job, room, index);
}

/* Takes one connection from the queue. When the room is full the oldest has to go: a flow of ours
 * speaks at once and so never becomes the oldest. */
static bool take_in(struct job *job, struct waiting_room *room, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && room->count > 0) {
        refuse(job, room, 0);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    if (fd < 0)
        return false;
    if (room->count == MAX_PENDING)
        refuse(job, room, 0);
    room->pending[room->count++] = (struct pending){.fd = fd, .until_ns = now_ns() + HELLO_NS};
    hear(job, room, room->count - 1);
    return true;
}

static int64_t first_deadline(const struct waiting_room *room, int64_t deadline_ns)
{
    return room->count > 0 && room->pending[0].until_ns < deadline_ns ? room->pending[0].until_ns
                                                                      : deadline_ns;
}

/* Waits for whatever comes first; returns the flow that its sender has left, or -1. */
static int watch(struct job *job, struct waiting_room *room, int listener, int64_t deadline_ns)
{
    static struct pollfd fds[SLOTS];
    const int pending = room->count;
    nfds_t used = FIRST_SLOT;
    fds[LISTEN_SLOT] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < pending; i++)
        fds[used++] = (struct pollfd){.fd = room->pending[i].fd, .events = POLLIN};
    for (int i = 0; i < MAX_FLOWS; i++)
        fds[used++] = (struct pollfd){.fd = job->flows[i].fd, .events = POLLRDHUP};
    control_wait(job->control, fds, used, first_deadline(room, deadline_ns));

    for (int i = 0; i < MAX_FLOWS; i++)
        if (fds[FIRST_SLOT + pending + i].revents)
            return i;
    /* Backwards, since whoever goes lets those behind move up. */
    for (int i = pending - 1; i >= 0; i--)
        if (fds[FIRST_SLOT + i].revents)
            hear(job, room, i);
    while (room->count > 0 && room->pending[0].until_ns <= now_ns())
        refuse(job, room, 0);
    return -1;
}

static bool all_admitted(const struct job *job, const struct waiting_room *room)
{
    return job->params.flows > 0 && room->admitted == job->params.flows;
}

static bool admit_all(struct job *job, struct waiting_room *room, int listener)
{
    const int64_t deadline_ns =
        job->params.by_hand ? FOREVER : now_ns() + seconds_ns(job->params.arm_timeout_s);
    while (!all_admitted(job, room)) {
        const int left = watch(job, room, listener, deadline_ns);
        if (job_aborted(job))
            return false;
        if (left >= 0)
            return job_fail(job, "reset", left, "the sender left before all flows were connected");
        if (now_ns() >= deadline_ns)
            return job_fail(
                job, "arm-timeout", -1,
                "%d of %d flows came within %g s; can the sender reach this address and port?",
                room->admitted, job->params.flows, job->params.arm_timeout_s);
        /* No more than a room full at a time, so that a flood can't keep us from the deadlines. */
        for (int i = 0; i < MAX_PENDING && !all_admitted(job, room) && take_in(job, room, listener);
             i++)
            ;
    }
    return true;
}

static int listen_at(const struct addrinfo *address)
{
    const int on = 1, off = 0;
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int open_listener(struct job *job)
{
    char port[8];
    snprintf(port, sizeof port, "%d", job->params.port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found;
    const int problem = getaddrinfo(job->params.host, port, &hints, &found);
    if (problem) {
        job_fail(job, "bind", -1, "%s: %s; give a numeric address", job->params.host,
                 gai_strerror(problem));
        return -1;
    }
    const int fd = listen_at(found);
    if (fd < 0)
        job_fail(job, "bind", -1, "can't listen on %s port %s: %s", job->params.host, port,
                 strerror(errno));
    freeaddrinfo(found);
    return fd;
}

static int port_of(int listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        return 0;
    /* The port stands at the same place in both families. */
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

bool admit_flows(struct job *job)
{
    static struct waiting_room room;
    const int listener = open_listener(job);
    if (listener < 0)
        return false;
    room.count = 0;
    room.admitted = 0;
    job->listening_port = port_of(listener);
    job->report->listening(job);
    const bool ok = admit_all(job, &room, listener);
    close(listener);
    while (room.count > 0)
        refuse(job, &room, 0);
    return ok;
}
