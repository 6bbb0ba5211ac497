/* For ppc64le musl's pow() and exp() stay out of the agent, their tables, 7 kB, do not: the linker
 * keeps all constants together there. Nobody calls these functions (a test looks), so that the
 * tables may be empty. */
#include <features.h>

#if defined __powerpc64__ && !defined __GLIBC__
const char __pow_log_data, __exp_data, __exp2f_data, __powf_log2_data;
#endif
