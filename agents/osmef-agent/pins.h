/* The CPUs that threads are bound to. */
#ifndef OSMEF_PINS_H
#define OSMEF_PINS_H

#include "flow_threads.h"

#define MAX_PINS 256
#define PINS_SIZE 1024

struct pins {
    int count; /* 0: the scheduler chooses */
    int cpus[MAX_PINS];
};

/* Reads a list like "0,2,5". */
bool pins_read(const char *text, struct pins *pins);

/* Fails the job when a CPU is not among those that this process may use. */
bool pins_allowed(struct job *job, const struct pins *pins);

/* Binds the calling thread, which has this number, to its CPU, if there are any; they serve in
 * turn.
 */
bool pins_bind(struct flow_thread *thread, const struct pins *pins, int number);

#endif
