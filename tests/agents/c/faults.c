/* Linked into an agent with --wrap: what its kernel says, made wrong in ways that a test asks for
 * by environment variables. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/tcp.h>

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *length);

#define NS_PER_S 1000000000LL

static int64_t wanted(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* FAULT_STEP_S: somebody sets the real-time clock back and forth, more at each look.
 * FAULT_SPEED: time passes so many times as fast. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    static _Atomic int64_t looks;
    const int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_REALTIME) {
        const int64_t step_s = wanted("FAULT_STEP_S", 0) * ++looks;
        now->tv_sec += looks % 2 ? step_s : -step_s;
        return result;
    }
    const int64_t ns =
        (now->tv_sec * NS_PER_S + now->tv_nsec) % (1000000 * NS_PER_S) * wanted("FAULT_SPEED", 1);
    now->tv_sec = ns / NS_PER_S;
    now->tv_nsec = ns % NS_PER_S;
    return result;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    const int64_t ns =
        (timeout->tv_sec < 1000000000 ? timeout->tv_sec * NS_PER_S + timeout->tv_nsec : INT64_MAX) /
        wanted("FAULT_SPEED", 1);
    const struct timespec shorter = {ns / NS_PER_S, ns % NS_PER_S};
    return __real_ppoll(fds, count, &shorter, mask);
}

/* FAULT_TCP_INFO: the bytes that the kernel knows of. FAULT_RETRANSMITS: how many there were at the
 * first look; three more at each further one. */
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    static uint32_t looks;
    const socklen_t asked = *length;
    const int result = __real_getsockopt(fd, level, option, value, length);
    if (result < 0 || level != IPPROTO_TCP || option != TCP_INFO)
        return result;
    struct tcp_info *info = value;
    if (getenv("FAULT_RETRANSMITS"))
        info->tcpi_total_retrans = (uint32_t)wanted("FAULT_RETRANSMITS", 0) + 3 * looks++;
    const socklen_t known = (socklen_t)wanted("FAULT_TCP_INFO", asked);
    if (known < *length) {
        memset((char *)value + known, 0xa5, asked - known);
        *length = known;
    }
    return result;
}
