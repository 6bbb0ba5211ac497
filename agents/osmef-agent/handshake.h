/* The handshake at the start of a data connection, and the socket option that goes with it. */
#ifndef OSMEF_HANDSHAKE_H
#define OSMEF_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_FLOWS 1000
#define COOKIE_SIZE 16
#define HANDSHAKE_SIZE 48
#define ADMITTED '+'

enum handshake_kind { HANDSHAKE_BULK = 1, HANDSHAKE_UDP, HANDSHAKE_EXCHANGE, HANDSHAKE_SIZES };
enum direction { FORWARD, REVERSE, BOTH };

/* The parameters of the job that the connecting end sends; the listening end must have the same. */
struct handshake {
    enum handshake_kind kind;
    enum direction direction;
    int flows; /* 0: to be taken, as the rest, from the handshake of the peer */
    uint32_t duration_ms;
    uint32_t warmup_ms;
    uint64_t bytes; /* of each flow; 0: limited by time */
    unsigned char cookie[COOKIE_SIZE];
};

/* Writes the handshake of one flow. */
void handshake_write(const struct handshake *handshake, int flow,
                     unsigned char text[HANDSHAKE_SIZE]);

/* Returns the flow's number, or -1 for a connection that is not of the job. With `flows` 0 all
 * members but the cookie and the kind are taken from the first valid handshake. */
int handshake_check(struct handshake *handshake, const unsigned char text[HANDSHAKE_SIZE]);

/* With `reset` a close, or the end of the process, resets the connection, so that the peer can't
 * take a broken flow for one that has ended. Without it the connection ends with a FIN. */
void linger_reset(int fd, bool reset);

#endif
