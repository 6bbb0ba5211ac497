/* The limit of open descriptors (RLIMIT_NOFILE, getrlimit(2)). */
#ifndef OSMEF_LIMITS_H
#define OSMEF_LIMITS_H

/* Raises the soft limit: 1000 flows and the unauthenticated connections need more descriptors than
 * its usual 1024. */
void limits_raise(void);

/* Restores the limit for a program that is run: it may use select(2), which is limited to 1024. */
void limits_restore(void);

#endif
