/* Several agents of one controller on one standard input and output. Each is a process; this one
 * forwards the commands to it, and its events to the controller. */
#ifndef OSMEF_AGENT_MULTIPLEXER_H
#define OSMEF_AGENT_MULTIPLEXER_H

/* Opens and closes agents, and forwards commands and events, until the input ends; then all agents
 * end. */
_Noreturn void serve_many(void);

#endif
