/* The agent under a controller. */
#ifndef OSMEF_SERVE_H
#define OSMEF_SERVE_H

/* Says which protocol it speaks. */
void say_hello(void);

/* Speaks the protocol on standard input and output until the input ends. */
_Noreturn void serve(void);

#endif
