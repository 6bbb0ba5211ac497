#include "echo.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_six(const struct probe *probe)
{
    return probe->peer.ss_family == AF_INET6;
}

/* A raw socket receives all ICMP messages of the machine, which would fill its buffer. This filter
 * accepts only replies to its own echo requests. With IPv4 they follow the IP header, whose length
 * is loaded into x. */
static bool filter_own_replies(const struct probe *probe, int fd)
{
    const bool six = is_six(probe);
    struct sock_filter code[] = {
        six ? (struct sock_filter)BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 0)
            : (struct sock_filter)BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, six ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, probe->identifier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

int echo_open(struct exchange *exchange, int flow)
{
    struct job *job = exchange->threads.job;
    struct probe *probe = &exchange->probes[flow];
    const int family = probe->peer.ss_family;
    const int protocol = is_six(probe) ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, protocol);
    probe->identifier = (uint16_t)(getpid() + flow);
    probe->raw = fd < 0;
    if (fd < 0)
        fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, protocol);
    if (fd < 0 || (probe->raw && !filter_own_replies(probe, fd)))
        job_fail(job, "option", flow,
                 "no ICMP socket: %s; run as root, or let users ask for echoes: sysctl "
                 "net.ipv4.ping_group_range=\"0 2147483647\"",
                 strerror(errno));
    else if (options_mark(job, &exchange->params.link.options, fd, family, flow))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The Internet checksum (RFC 1071). */
static uint16_t checksum(const unsigned char *data, size_t size)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

/* If the socket is not raw, the kernel replaces the identifier. It also computes the checksum of
 * ICMPv6, which includes the addresses. */
size_t echo_write(const struct probe *probe, uint64_t number, unsigned char *text, size_t payload)
{
    struct icmphdr head = {.type = is_six(probe) ? ICMP6_ECHO_REQUEST : ICMP_ECHO};
    head.un.echo.id = htons(probe->identifier);
    head.un.echo.sequence = htons((uint16_t)number);
    memcpy(text, &head, ECHO_HEADER_SIZE);
    if (!is_six(probe)) {
        head.checksum = checksum(text, ECHO_HEADER_SIZE + payload);
        memcpy(text, &head, ECHO_HEADER_SIZE);
    }
    return ECHO_HEADER_SIZE + payload;
}

const unsigned char *echo_read(const struct probe *probe, const unsigned char *text, ssize_t *size)
{
    const int ip = probe->raw && !is_six(probe) && *size > 0 ? (text[0] & 15) * 4 : 0;
    const unsigned char answer = is_six(probe) ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY;
    *size -= ip + ECHO_HEADER_SIZE;
    return *size >= 0 && text[ip] == answer ? text + ip + ECHO_HEADER_SIZE : NULL;
}
