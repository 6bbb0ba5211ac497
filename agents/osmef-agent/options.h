/* Socket options of data connections that a job may request. */
#ifndef OSMEF_OPTIONS_H
#define OSMEF_OPTIONS_H

#include "fields.h"
#include "job.h"

#define CONGESTION_SIZE 16
#define LOWEST_WINDOW 1024
#define HIGHEST_WINDOW (1 << 30)
#define LOWEST_MSS 88
#define HIGHEST_MSS 65495
#define HIGHEST_DSCP 63
#define LOWEST_PACING 1e3
#define HIGHEST_PACING 1e13

struct socket_options {
    int window; /* bytes; 0: the kernel tunes the buffers */
    int mss;    /* bytes; 0: the kernel's */
    int dscp;
    char congestion_control[CONGESTION_SIZE]; /* empty: the kernel's */
    double pacing_bps;                        /* each flow; 0: none */
    bool mptcp;
};

bool options_read(const struct json_object *command, struct socket_options *options, char *problem);

/* Opens a TCP socket with the options, before it connects or listens: an accepted connection
 * inherits them. Returns -1 and fails the job when the kernel refuses one. */
int options_socket(struct job *job, const struct socket_options *options, int family, int flow);

/* The same, in blocking mode. */
int options_stream(struct job *job, const struct socket_options *options, int family, int flow);

/* Opens a UDP socket with the options that apply to it: window and dscp. */
int options_datagram(struct job *job, const struct socket_options *options, int family, int flow);

/* Sets the DSCP of the options on a socket. */
bool options_mark(struct job *job, const struct socket_options *options, int fd, int family,
                  int flow);

/* Sets congestion control and DSCP, if given, on an established connection. */
bool options_change(struct job *job, const struct socket_options *options, int fd, int flow);

/* Returns 1 when the connection uses MPTCP, 0 when it has fallen back to TCP, and UNKNOWN when the
 * kernel does not report it (before Linux 5.16). */
int options_mptcp(int fd);

#endif
