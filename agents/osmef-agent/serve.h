/* The agent with a controller. */
#ifndef OSMEF_SERVE_H
#define OSMEF_SERVE_H

/* Sends the event `hello` with the version of the protocol. */
void say_hello(void);

/* Handles commands on standard input and sends events to standard output until the input ends. */
_Noreturn void serve(void);

#endif
