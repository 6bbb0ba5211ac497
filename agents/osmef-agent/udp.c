#include "udp.h"

#include "udp_wire.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The least that QUIC demands of a path (RFC 9000, section 14): with IPv6 and most tunnels around
 * it, a datagram stays in one packet. */
#define USUAL_SIZE 1200

static struct udp_params params; /* of the job that was read last */
static struct udp udp;

bool udp_fail(struct udp_flow *flow, const char *kind, const char *format, ...)
{
    if (flow->failure.kind)
        return false;
    flow->failure.kind = kind;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(flow->failure.message, sizeof flow->failure.message, format, arguments);
    va_end(arguments);
    return false;
}

bool udp_peer_lives(struct udp_flow *flow)
{
    char byte;
    const ssize_t n = recv(flow->control, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return true;
    return udp_fail(flow, "reset", "the peer closed the flow before its end: %s",
                    n < 0 ? strerror(errno) : "no count");
}

/* What only TCP knows would silently do nothing. */
static bool check_options(const struct socket_options *options, char *problem)
{
    if (!options->mss && !options->congestion_control[0] && options->pacing_bps == 0 &&
        !options->mptcp)
        return true;
    snprintf(problem, PROBLEM_SIZE,
             "udp takes no mss, congestion_control, pacing_bps or mptcp; rate_bps paces it");
    return false;
}

static bool check_ports(int flows, int first, char *problem)
{
    if (first + flows - 1 <= 65535)
        return true;
    snprintf(problem, PROBLEM_SIZE, "udp_port leaves no port for the last of %d flows", flows);
    return false;
}

static bool read_times(const struct json_object *command, struct udp_params *p, char *problem)
{
    return field_number(command, "duration_s", SHORTEST_S, LONGEST_S, &p->duration_s, problem) &&
           field_number(command, "interval_s", SHORTEST_S, LONGEST_S, &p->interval_s, problem) &&
           field_number_or(command, "warmup_s", 0, LONGEST_S, 0, &p->warmup_s, problem) &&
           field_number_or(command, "loss_threshold_s", SHORTEST_S, 60, 1, &p->loss_threshold_s,
                           problem);
}

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    static const char *const directions[] = {"forward", "reverse", NULL};
    struct udp_params *p = &params;
    struct opening *opening = &p->link.opening;
    int direction;
    *p = (struct udp_params){.link.opening.kind = OPENING_UDP};
    if (!link_read(command, &p->link, problem) || !read_times(command, p, problem) ||
        !field_word_or(command, "direction", directions, FORWARD, &direction, problem) ||
        !field_number_or(command, "rate_bps", 0, 1e13, 0, &p->rate_bps, problem) ||
        !field_whole_or(command, "size", UDP_HEADER_SIZE, UDP_LARGEST, USUAL_SIZE, &p->size,
                        problem) ||
        !field_whole_or(command, "burst", 1, UDP_MAX_BURST, 1, &p->burst, problem) ||
        !field_whole_or(command, "udp_port", 0, 65535, 0, &p->udp_port, problem))
        return false;
    opening->direction = (enum direction)direction;
    opening->duration_ms = (uint32_t)lround(p->duration_s * 1000);
    opening->warmup_ms = (uint32_t)lround(p->warmup_s * 1000);
    return check_options(&p->link.options, problem) &&
           check_ports(opening->flows, p->udp_port, problem);
}

/* A result is told after its job's end, so the flows of one live until the next. */
static bool map_flows(struct job *job, int count)
{
    if (udp.flows)
        munmap(udp.flows, sizeof *udp.flows * (size_t)udp.count);
    udp.flows = NULL;
    void *const memory = mmap(NULL, sizeof *udp.flows * (size_t)count, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return job_fail(job, "resource", -1, "no memory for %d flows: %s", count, strerror(errno));
    udp.flows = memory;
    return true;
}

static bool prepare(struct job *job)
{
    const int count = params.link.opening.flows;
    if (!map_flows(job, count))
        return false;
    udp.job = job;
    udp.params = params;
    udp.role = params.link.listens == (params.link.opening.direction == REVERSE) ? UDP_SENDER
                                                                                 : UDP_RECEIVER;
    udp.count = count;
    udp.start_ns = 0;
    udp.cancelled = false;
    for (int i = 0; i < count; i++) {
        udp.flows[i].udp = &udp;
        udp.flows[i].index = i;
        udp.flows[i].fd = -1;
    }
    /* The window is for the datagrams; the connections carry next to nothing. */
    udp.params.link.options.window = 0;
    udp.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return udp.wake >= 0 ||
           job_fail(job, "resource", -1, "no event descriptor: %s", strerror(errno));
}

static bool run(struct job *job)
{
    if (!prepare(job))
        return false;
    bool ok = link_open(job, &udp.params.link, &udp.link);
    if (ok) {
        udp.params.link.options.window = params.link.options.window;
        ok = udp_open(&udp) && udp_transfer(&udp);
        /* First the connections: a peer whose datagrams are answered by ICMP looks there. */
        link_close(&udp.link);
        udp_close(&udp);
    }
    close(udp.wake);
    return ok;
}

static void tell_result(const struct job *job)
{
    (void)job;
    udp_tell_result(&udp);
}

const struct kind udp_kind = {"udp", false, read_params, run, tell_result, false};
