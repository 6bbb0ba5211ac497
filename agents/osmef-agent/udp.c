#include "udp.h"

#include "pages.h"
#include "ports.h"
#include "udp_wire.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The minimum that QUIC requires of a path (RFC 9000, section 14): with IPv6 and most tunnels a
 * datagram of this size is not fragmented. */
#define USUAL_SIZE 1200

static struct udp_params params; /* of the job that was read last */
static struct udp udp;

/* Rejects options of TCP, which would have no effect. */
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

static const char *const directions[] = {"forward", "reverse", NULL};
static const struct field fields[] = {
#define FIELDS_OF struct udp_params
    NUMBER("duration_s", duration_s, SHORTEST_S, LONGEST_S, NEEDED),
    NUMBER("interval_s", interval_s, SHORTEST_S, LONGEST_S, NEEDED),
    NUMBER("warmup_s", warmup_s, 0, LONGEST_S, 0),
    NUMBER("loss_threshold_s", loss_threshold_s, SHORTEST_S, 60, 1),
    WORD("direction", link.handshake.direction, directions, FORWARD),
    NUMBER("rate_bps", rate_bps, 0, 1e13, 0),
    WHOLE("size", size, UDP_HEADER_SIZE, UDP_LARGEST, USUAL_SIZE),
    WHOLE("burst", burst, 1, UDP_MAX_BURST, 1),
    WHOLE("udp_port", udp_port, 0, 65535, 0),
    FIELDS_END,
#undef FIELDS_OF
};

static bool read_params(const struct json_object *command, char problem[PROBLEM_SIZE])
{
    struct udp_params *p = &params;
    struct handshake *handshake = &p->link.handshake;
    *p = (struct udp_params){.link.handshake.kind = HANDSHAKE_UDP};
    if (!link_read(command, &p->link, problem) || !fields_read(command, fields, p, problem))
        return false;
    handshake->duration_ms = (uint32_t)lround(p->duration_s * 1000);
    handshake->warmup_ms = (uint32_t)lround(p->warmup_s * 1000);
    return check_options(&p->link.options, problem) &&
           check_ports(handshake->flows, p->udp_port, problem);
}

/* Binds to the address that the flow's connection has at this end. */
static bool open_socket(const struct flow_threads *threads, struct udp_flow *flow, int *port)
{
    struct sockaddr_storage here;
    socklen_t size = sizeof here;
    if (getsockname(flow->thread->fd, (struct sockaddr *)&here, &size) < 0)
        return job_fail(threads->job, "reset", flow->index, "the peer has left: %s",
                        strerror(errno));
    flow->fd =
        options_datagram(threads->job, &udp.params.link.options, here.ss_family, flow->index);
    if (flow->fd < 0)
        return false;
    if (!ports_bind(flow->fd, &here, size, port))
        return job_fail(threads->job, "bind", flow->index,
                        "can't use UDP port %d, nor those after: %s", udp.params.udp_port,
                        strerror(errno));
    return ports_send(threads, flow->index, flow->fd);
}

static bool connect_socket(const struct flow_threads *threads, const struct udp_flow *flow,
                           int64_t deadline_ns)
{
    struct sockaddr_storage peer;
    socklen_t size;
    if (!ports_receive(threads, flow->index, deadline_ns, &peer, &size))
        return false;
    return connect(flow->fd, (struct sockaddr *)&peer, size) == 0 ||
           job_fail(threads->job, "connect", flow->index, "can't send datagrams to the peer: %s",
                    strerror(errno));
}

/* Opens a socket beside each connection of the link, and connects it to the peer's. */
static bool open_sockets(const struct flow_threads *threads)
{
    const int64_t deadline_ns = now_ns() + seconds_ns(threads->params->arm_timeout_s);
    int port = udp.params.udp_port;
    for (int i = 0; i < udp.count; i++) {
        udp.flows[i].thread = &udp.threads.of[i];
        if (!open_socket(threads, &udp.flows[i], &port))
            return false;
    }
    for (int i = 0; i < udp.count; i++)
        if (!connect_socket(threads, &udp.flows[i], deadline_ns))
            return false;
    return true;
}

static void close_sockets(void)
{
    for (int i = 0; i < udp.count; i++) {
        if (udp.flows[i].fd >= 0)
            close(udp.flows[i].fd);
        udp.flows[i].fd = -1;
    }
}

/* A result is reported after the end of its job, so the flows of a job are kept until the next. */
static bool map_flows(const struct flow_threads *threads)
{
    if (udp.flows)
        munmap(udp.flows, sizeof *udp.flows * (size_t)udp.count);
    udp.count = 0;
    udp.flows = threads_map(threads, sizeof *udp.flows * (size_t)threads->link.flows, 0);
    if (!udp.flows)
        return false;
    udp.count = threads->link.flows;
    for (int i = 0; i < udp.count; i++) {
        udp.flows[i].udp = &udp;
        udp.flows[i].index = i;
        udp.flows[i].fd = -1;
    }
    return true;
}

static bool prepare(struct flow_threads *threads)
{
    udp.params.link.options.window = params.link.options.window;
    threads_set_messages(threads);
    if (!map_flows(threads) || !open_sockets(threads))
        return false;
    if (!threads_send(threads))
        return udp_map_buffers(&udp);
    udp_fill_payload();
    return true;
}

static bool work_on(struct flow_thread *thread)
{
    struct udp_flow *flow = &udp.flows[thread->index];
    return threads_send(thread->threads) ? udp_send(flow) : udp_receive(flow);
}

static void begin(struct flow_threads *threads)
{
    (void)threads;
    udp_series_begin(&udp);
}

/* CPU time is counted until the sender's end: after that a receiver only waits for late
 * datagrams. */
static int64_t tick(struct flow_threads *threads)
{
    const int64_t sent_ns = threads->start_ns + seconds_ns(params.warmup_s + params.duration_s);
    const int64_t next_ns = udp_series_tick(&udp);
    if (now_ns() >= sent_ns)
        threads_count_use(threads);
    return threads->counted || next_ns < sent_ns ? next_ns : sent_ns;
}

static const struct flow_work work = {.prepare = prepare,
                                      .run = work_on,
                                      .tick = tick,
                                      .go = UDP_GO,
                                      .always_go = true,
                                      .begin = begin};

static bool run(struct job *job)
{
    struct flow_threads *threads = &udp.threads;
    udp.params = params;
    /* The window is for the datagrams; the connections carry little data. */
    udp.params.link.options.window = 0;
    threads->work = &work;
    /* All waits of a flow's thread have timeouts of their own. */
    threads->stall_limit_s = threads->total_limit_s = INFINITY;
    const bool ok = threads_run(threads, job, &udp.params.link);
    /* After the connections: a peer that gets ICMP errors for its datagrams checks them. */
    close_sockets();
    udp_unmap_buffers();
    if (ok)
        udp_series_finish(&udp, threads->end_ns);
    return ok;
}

static void write_result(const struct job *job)
{
    (void)job;
    udp_write_result(&udp);
}

const struct kind udp_kind = {"udp", false, read_params, run, write_result, false};
