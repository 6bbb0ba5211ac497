/* The output of jobs as events of the protocol. */
#ifndef OSMEF_EVENTS_H
#define OSMEF_EVENTS_H

#include "job.h"

#include <stdint.h>

extern const struct report event_report;

/* An event of a job: begin, append the members with out_format(), end. */
void event_begin(const struct job *job, const char *event);
void event_end(void);

/* Appends a value, or null for UNKNOWN. */
void write_value(const char *separator, int64_t value);

/* Appends the state of a connection as the member `tcp`. */
struct tcp_state;
void write_tcp(const struct tcp_state *tcp);

/* Appends the members of a thread's CPU time; NULL: unknown. */
struct cpu_time;
void write_cpu_time(const char *separator, const struct cpu_time *cpu);
/* The same, and its last CPU. */
void write_cpu(const struct cpu_time *cpu);

/* Appends the members that every result with a CPU account has. */
struct endpoint_time;
void write_process(const struct cpu_time *process);
void write_endpoint(const struct endpoint_time *endpoint);

void event_result(const struct job *job);

#endif
