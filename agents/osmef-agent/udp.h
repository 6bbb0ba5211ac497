/* UDP at a rate: one end of n flows of numbered datagrams. Each flow has a TCP connection of the
 * link beside it, which carries the start, the count at the end, and the peer's death. */
#ifndef OSMEF_UDP_H
#define OSMEF_UDP_H

#include "clock.h"
#include "datagram_stats.h"
#include "flow_threads.h"
#include "kind.h"

/* The most that a datagram over IPv4 can carry: 65535 less both headers. */
#define UDP_LARGEST 65507
#define UDP_MAX_BURST 64
/* How often a thread that has nothing to do looks after the peer and the job. */
#define UDP_CHECK_NS (NS_PER_S / 10)
/* A receiver whose path keeps delivering late waits so many loss thresholds at most. */
#define UDP_MAX_THRESHOLDS 10

enum udp_phase { UDP_WARMUP, UDP_MEASURED, UDP_PHASES };

struct udp_params {
    struct link_params link;
    double rate_bps; /* payload of each flow; 0: as fast as it goes */
    int size;        /* payload of a datagram, our header included */
    int burst;       /* datagrams that are sent together */
    int udp_port;    /* of this end's first flow, the next ones' follow; 0: any */
    double duration_s;
    double warmup_s;
    double interval_s;
    double loss_threshold_s; /* one that has not come so long after the last is lost */
};

/* Totals that a flow's thread shows to the reports, both phases together. */
enum udp_shown {
    UDP_BYTES,
    UDP_DATAGRAMS,
    UDP_REFUSED,   /* senders: datagrams that the system had no buffer for */
    UDP_BEHIND_NS, /* senders: how far the last one was behind its time */
    UDP_LOST,
    UDP_REORDERED,
    UDP_DUPLICATES,
    UDP_DROPPED, /* by our own socket, whose buffer was full */
    UDP_JITTER_NS,
    UDP_SHOWN
};

struct udp;

struct udp_flow {
    /* Alone on its cache lines: the flow's thread writes it often, the others rarely read. */
    _Alignas(CACHE_LINE) _Atomic int64_t shown[UDP_SHOWN];
    _Alignas(CACHE_LINE) struct udp *udp;
    struct flow_thread *thread; /* with its TCP connection */
    int index;
    int fd; /* its UDP socket, connected; -1: none */

    /* Written by the thread until it ends. */
    uint64_t sent[UDP_PHASES]; /* receivers: as the sender told it */
    int64_t length_ns;         /* how long the sender sent, warm-up aside */
    /* senders */
    uint64_t refused;
    int64_t behind_max_ns;
    int64_t slipped_ns; /* by which the schedule was put off, since it could not be kept */
    bool segmented;     /* the kernel cuts bursts (UDP_SEGMENT) */
    int64_t path_mtu;   /* of IP packets, as the kernel knows it at the end; or UNKNOWN */
    /* receivers */
    struct datagram_stats stats[UDP_PHASES];
    uint64_t foreign; /* datagrams that are not ours */
    uint64_t dropped;
    uint64_t dropped_before; /* in the warm-up */
    int64_t first_ns;        /* measured arrivals; 0: none */
    int64_t last_ns;
    int receive_buffer;
    bool coalesced; /* the kernel glues datagrams together (UDP_GRO), and drops them as one */
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

/* Maps what the receivers read into; the unmapping of nothing is nothing. */
bool udp_map_buffers(struct udp *udp);
void udp_unmap_buffers(void);

#endif
