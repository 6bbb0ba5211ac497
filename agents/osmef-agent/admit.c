#include "admit.h"

#include "clock.h"

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

/* A connection that has not said all of its opening yet. */
struct pending {
    int fd;
    int64_t until_ns;
    size_t used;
    unsigned char text[OPENING_SIZE];
};

/* Connections that are not admitted yet, the oldest first, with the job that they are for. */
struct waiting_room {
    struct job *job;
    struct link_params *params;
    struct link *link;
    int admitted;
    int shortage; /* errno of the last connection that could not be accepted; 0: none */
    int count;
    struct pending pending[MAX_PENDING];
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

static void refuse(struct waiting_room *room, int index)
{
    close(leave(room, index));
    room->link->refused++;
}

static bool admit(struct waiting_room *room, int index)
{
    const struct pending *pending = &room->pending[index];
    const int number = opening_check(&room->params->opening, pending->text);
    const char answer = ADMITTED;
    if (number < 0 || room->link->fds[number] >= 0)
        return false;
    linger_reset(pending->fd, true);
    if (send(pending->fd, &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return false;
    room->link->fds[number] = leave(room, index);
    room->admitted++;
    return true;
}

/* Reads what a pending connection says, and admits or refuses it once that is clear. */
static void hear(struct waiting_room *room, int index)
{
    struct pending *pending = &room->pending[index];
    const ssize_t n = recv(pending->fd, pending->text + pending->used, OPENING_SIZE - pending->used,
                           MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        pending->used += (size_t)n;
        if (pending->used < OPENING_SIZE)
            return;
        if (admit(room, index))
            return;
    }
    refuse(room, index);
}

static bool is_short_of_resources(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM;
}

static bool fail_short(struct waiting_room *room)
{
    return job_fail(room->job, "resource", -1,
                    "no room for more than %d of %d flows: %s; try fewer flows or raise the limits",
                    room->admitted, room->params->opening.flows, strerror(room->shortage));
}

/* Takes one connection from the queue. When the room is full the oldest has to go: a flow of ours
 * speaks at once and so never becomes the oldest. */
static bool take_in(struct waiting_room *room, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && is_short_of_resources(errno)) {
        room->shortage = errno;
        if (room->count == 0)
            return fail_short(room);
        refuse(room, 0);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    if (fd < 0)
        return false;
    if (room->count == MAX_PENDING)
        refuse(room, 0);
    room->pending[room->count++] = (struct pending){.fd = fd, .until_ns = now_ns() + HELLO_NS};
    hear(room, room->count - 1);
    return true;
}

static int64_t first_deadline(const struct waiting_room *room, int64_t deadline_ns)
{
    return room->count > 0 && room->pending[0].until_ns < deadline_ns ? room->pending[0].until_ns
                                                                      : deadline_ns;
}

/* Waits for whatever comes first; returns the flow that its sender has left, or -1. */
static int watch(struct waiting_room *room, int listener, int64_t deadline_ns)
{
    static struct pollfd fds[SLOTS];
    static int flows[SLOTS];
    const int pending = room->count;
    nfds_t used = FIRST_SLOT;
    fds[LISTEN_SLOT] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < pending; i++)
        fds[used++] = (struct pollfd){.fd = room->pending[i].fd, .events = POLLIN};
    /* Only those that are there: poll(2) takes no more entries than there may be descriptors. */
    for (int i = 0; i < MAX_FLOWS; i++) {
        if (room->link->fds[i] < 0)
            continue;
        flows[used] = i;
        fds[used++] = (struct pollfd){.fd = room->link->fds[i], .events = POLLRDHUP};
    }
    control_wait(room->job->control, fds, used, first_deadline(room, deadline_ns));

    for (nfds_t i = FIRST_SLOT + (nfds_t)pending; i < used; i++)
        if (fds[i].revents)
            return flows[i];
    /* Backwards, since whoever goes lets those behind move up. */
    for (int i = pending - 1; i >= 0; i--)
        if (fds[FIRST_SLOT + i].revents)
            hear(room, i);
    while (room->count > 0 && room->pending[0].until_ns <= now_ns())
        refuse(room, 0);
    return -1;
}

static bool all_admitted(const struct waiting_room *room)
{
    return room->params->opening.flows > 0 && room->admitted == room->params->opening.flows;
}

static bool admit_all(struct waiting_room *room, int listener)
{
    struct job *job = room->job;
    const double timeout_s = room->params->arm_timeout_s;
    const int64_t deadline_ns = job->by_hand ? FOREVER : now_ns() + seconds_ns(timeout_s);
    while (!all_admitted(room)) {
        const int left = watch(room, listener, deadline_ns);
        if (job_aborted(job))
            return false;
        /* One of ours may have had to go with the strangers. */
        if ((left >= 0 || now_ns() >= deadline_ns) && room->shortage)
            return fail_short(room);
        if (left >= 0)
            return job_fail(job, "reset", left, "the sender left before all flows were connected");
        if (now_ns() >= deadline_ns)
            return job_fail(
                job, "arm-timeout", -1,
                "%d of %d flows came within %g s; can the sender reach this address and port?",
                room->admitted, room->params->opening.flows, timeout_s);
        /* No more than a room full at a time, so that a flood can't keep us from the deadlines. */
        for (int i = 0; i < MAX_PENDING && !all_admitted(room) && take_in(room, listener); i++)
            ;
        if (job->failure.kind)
            return false;
    }
    return true;
}

/* Returns the listening socket, or -1 with the job failed. */
static int listen_at(struct job *job, const struct link_params *params,
                     const struct addrinfo *address)
{
    const int on = 1, off = 0;
    const int fd = options_socket(job, &params->options, address->ai_family, -1);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    job_fail(job, "bind", -1, "can't listen on %s port %d: %s", params->host, params->port,
             strerror(errno));
    close(fd);
    return -1;
}

static int open_listener(struct job *job, const struct link_params *params)
{
    char port[8];
    snprintf(port, sizeof port, "%d", params->port);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found;
    const int problem = getaddrinfo(params->host, port, &hints, &found);
    if (problem) {
        job_fail(job, "bind", -1, "%s: %s; give a numeric address", params->host,
                 gai_strerror(problem));
        return -1;
    }
    const int fd = listen_at(job, params, found);
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

bool admit_flows(struct job *job, struct link_params *params, struct link *link)
{
    static struct waiting_room room;
    const int listener = open_listener(job, params);
    if (listener < 0)
        return false;
    room.job = job;
    room.params = params;
    room.link = link;
    room.count = 0;
    room.admitted = 0;
    room.shortage = 0;
    job->report->listening(job, params->host, port_of(listener));
    const bool ok = admit_all(&room, listener);
    close(listener);
    while (room.count > 0)
        refuse(&room, 0);
    return ok;
}
