/* For ppc64le the linker drops musl's pow() and exp(), but keeps their tables, 7 kB, since it puts
 * all constants into one section. These functions are not called (a test checks that), so that the
 * tables may be empty. */
#include <features.h>

#if defined __powerpc64__ && !defined __GLIBC__
const char __pow_log_data, __exp_data, __exp2f_data, __powf_log2_data;
#endif
