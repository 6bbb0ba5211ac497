/* How many descriptors a process may have. */
#ifndef OSMEF_LIMITS_H
#define OSMEF_LIMITS_H

/* 1000 flows and a room full of strangers need more descriptors than some systems give at first. */
void limits_raise(void);

/* As it was before: a program that is run may wait with select(2), which knows 1024. */
void limits_restore(void);

#endif
