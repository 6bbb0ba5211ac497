/* Runs a program as Linux 3.10 would: system calls and socket options that came later don't exist.
 * Usage: old_kernel PROGRAM [ARGUMENT ...] */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define LAST_CALL 313 /* finit_module; 3.14 brought sched_setattr */
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define LAST_CALL 273
#else
#error "no table of system calls for this machine"
#endif

/* The last options that 3.10 has at each level. */
#define LAST_SO 45 /* SO_SELECT_ERR_QUEUE; then SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_ZEROCOPY ... */
#define LAST_TCP 24 /* TCP_TIMESTAMP; then TCP_NOTSENT_LOWAT ... */
#define LAST_UDP 100 /* UDP_ENCAP; then UDP_NO_CHECK6_TX, UDP_SEGMENT ... */
#define LAST_PROTOCOL 255 /* IPPROTO_MPTCP is 262 */

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
/* The lower half; big-endian machines have no table above. */
#define LOAD_ARGUMENT(n) LOAD(args[n])
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Each takes the next so many instructions if it is true, and else skips them. */
#define IF_EQUAL(value, length) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, length)
#define IF_ABOVE(value, length) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, value, 0, length)
#define OPTIONS_OF(level, last)                                                                    \
    LOAD_ARGUMENT(1), IF_EQUAL(level, 3), LOAD_ARGUMENT(2), IF_ABOVE(last, 1), FAIL(ENOPROTOOPT)

static struct sock_filter filter[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
    FAIL(ENOSYS),
    LOAD(nr),
    IF_ABOVE(LAST_CALL, 1),
    FAIL(ENOSYS),
    /* socket() */
    IF_EQUAL(SYS_socket, 6),
    LOAD_ARGUMENT(0),
    IF_EQUAL(AF_NETLINK, 1), /* may be left out when a kernel is built */
    FAIL(EPROTONOSUPPORT),
    LOAD_ARGUMENT(2),
    IF_ABOVE(LAST_PROTOCOL, 1),
    FAIL(EPROTONOSUPPORT),
    LOAD(nr),
    /* getsockopt() falls through to the options, as setsockopt() does */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 1, 0),
    ALLOW,
    OPTIONS_OF(SOL_SOCKET, LAST_SO),
    OPTIONS_OF(IPPROTO_TCP, LAST_TCP),
    OPTIONS_OF(IPPROTO_UDP, LAST_UDP),
    ALLOW,
};

int main(int argc, char **argv)
{
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        perror("old_kernel");
        return 125;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
