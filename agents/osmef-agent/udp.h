/* UDP at a rate: one end of n flows of numbered datagrams. Each flow has a TCP connection of the
 * link, which carries the start and the count at the end, and shows when the peer has ended. */
#ifndef OSMEF_UDP_H
#define OSMEF_UDP_H

#include "clock.h"
#include "datagram_stats.h"
#include "flow_threads.h"
#include "kind.h"

/* The largest payload of a datagram over IPv4: 65535 less both headers. */
#define UDP_LARGEST 65507
#define UDP_MAX_BURST 64
/* How often an idle thread checks the peer and the job. */
#define UDP_CHECK_NS (NS_PER_S / 10)
/* The longest time that a receiver waits for late datagrams, in loss thresholds. */
#define UDP_MAX_THRESHOLDS 10

enum udp_phase { UDP_WARMUP, UDP_MEASURED, UDP_PHASES };

struct udp_params {
    struct link_params link;
    double rate_bps; /* payload of each flow; 0: unlimited */
    int size;        /* payload of a datagram, with the agent's header */
    int burst;       /* datagrams that are sent together */
    int udp_port;    /* of this end's first flow, the next ones' follow; 0: any */
    double duration_s;
    double warmup_s;
    double interval_s;
    double loss_threshold_s; /* how long after the last datagram another may still come */
};

/* Totals of a flow that its thread publishes for reports, of both phases together. */
enum udp_shown {
    UDP_BYTES,
    UDP_DATAGRAMS,
    UDP_REFUSED,   /* senders: datagrams without buffer space in the kernel */
    UDP_BEHIND_NS, /* senders: how late the last one was sent */
    UDP_LOST,
    UDP_REORDERED,
    UDP_DUPLICATES,
    UDP_DROPPED, /* by the receiver's own socket, whose buffer was full */
    UDP_JITTER_NS,
    UDP_SHOWN
};

struct udp;

struct udp_flow {
    /* On cache lines of its own: the flow's thread writes it often, other threads rarely read
     * it. */
    _Alignas(CACHE_LINE) _Atomic int64_t shown[UDP_SHOWN];
    _Alignas(CACHE_LINE) struct udp *udp;
    struct flow_thread *thread; /* with its TCP connection */
    int index;
    int fd; /* its UDP socket, connected; -1: none */

    /* Written by the thread until it ends. */
    uint64_t sent[UDP_PHASES]; /* receivers: as sent by the peer */
    int64_t length_ns;         /* how long the sender sent, without the warm-up */
    /* senders */
    uint64_t refused;
    int64_t behind_max_ns;
    int64_t slipped_ns; /* how far the schedule was delayed, since it could not be kept */
    bool segmented;     /* the kernel segments bursts (UDP_SEGMENT) */
    int64_t path_mtu;   /* of IP packets, as the kernel knows at the end; or UNKNOWN */
    /* receivers */
    struct datagram_stats stats[UDP_PHASES];
    uint64_t foreign; /* datagrams that are not of the job */
    uint64_t dropped;
    uint64_t dropped_before; /* in the warm-up */
    int64_t first_ns;        /* measured arrivals; 0: none */
    int64_t last_ns;
    int receive_buffer;
    bool coalesced; /* the kernel coalesces datagrams (UDP_GRO), and drops them as one */
};

struct udp {
    struct flow_threads threads;
    struct udp_params params;
    int count;              /* of flows */
    struct udp_flow *flows; /* of this job, or of the one before */
};

extern const struct kind udp_kind;

/* When the next interval ends; FOREVER: the last one runs to the end. */
void udp_series_begin(const struct udp *udp);
int64_t udp_series_tick(const struct udp *udp);
void udp_series_finish(const struct udp *udp, int64_t end_ns);

/* Appends the result's members. */
void udp_write_result(const struct udp *udp);

/* What a flow's thread does. */
bool udp_send(struct udp_flow *flow);
bool udp_receive(struct udp_flow *flow);

void udp_fill_payload(void);

/* Maps the buffers of the receivers. The unmapping has no effect if none are mapped. */
bool udp_map_buffers(struct udp *udp);
void udp_unmap_buffers(void);

#endif
