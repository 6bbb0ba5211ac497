/* Many agents under one controller, on one standard input and output: a process each, to which
 * this one passes on what is for it, and from which it passes on what it says. */
#ifndef OSMEF_MANY_H
#define OSMEF_MANY_H

/* Opens, closes and passes on until the input ends; then all agents end. */
_Noreturn void serve_many(void);

#endif
