/* The bytes that open a data connection, and the socket option that goes with them. */
#ifndef OSMEF_OPENING_H
#define OSMEF_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_FLOWS 1000
#define COOKIE_SIZE 16
#define OPENING_SIZE 48
#define ADMITTED '+'

enum opening_kind { OPENING_BULK = 1, OPENING_UDP, OPENING_EXCHANGE, OPENING_SIZES };
enum direction { FORWARD, REVERSE, BOTH };

/* The parameters of the job that the connecting end sends; the listening end must have the same. */
struct opening {
    enum opening_kind kind;
    enum direction direction;
    int flows; /* 0: a listening end by hand, which takes the rest from the connecting one */
    uint32_t duration_ms;
    uint32_t warmup_ms;
    uint64_t bytes; /* for each flow; 0: by time */
    unsigned char cookie[COOKIE_SIZE];
};

/* Writes the opening of one flow. */
void opening_write(const struct opening *opening, int flow, unsigned char text[OPENING_SIZE]);

/* Returns the flow's number, or -1 for a connection that is not of the job. With `flows` 0 all
 * members but the cookie and the kind are taken from the first valid opening. */
int opening_check(struct opening *opening, const unsigned char text[OPENING_SIZE]);

/* With `reset` a close, or the end of the process, resets the connection, so that the peer can't
 * take a broken flow for one that has ended. Without it the connection ends with a FIN. */
void linger_reset(int fd, bool reset);

#endif
