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

/* What the connecting end says of the job; the listening end must expect the same. */
struct opening {
    enum opening_kind kind;
    enum direction direction;
    int flows; /* 0: a listening end by hand, which learns the rest from the connecting one */
    uint32_t duration_ms;
    uint32_t warmup_ms;
    uint64_t bytes; /* for each flow; 0: by time */
    unsigned char cookie[COOKIE_SIZE];
};

/* Writes what one flow says. */
void opening_write(const struct opening *opening, int flow, unsigned char text[OPENING_SIZE]);

/* Returns the flow's number, or -1 for a stranger. A listening end by hand learns all but the
 * cookie and the kind from the first good one. */
int opening_check(struct opening *opening, const unsigned char text[OPENING_SIZE]);

/* With it a close, or the end of the process, resets the connection: a peer never takes a broken
 * flow for one that has ended. Without it the connection ends properly. */
void linger_reset(int fd, bool reset);

#endif
