#include "listening_ports.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORD_DIGITS 8
#define ADDRESS_SIZE 16
/* The states of listening TCP and unconnected UDP sockets (include/net/tcp_states.h of Linux). */
#define TCP_STATE 0x0a
#define UDP_STATE 0x07

/* IPv4 addresses are mapped ones (RFC 4291, section 2.5.5.2). */
static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
static const unsigned char zeros[ADDRESS_SIZE];

struct socket_entry {
    unsigned char address[ADDRESS_SIZE];
    unsigned long port;
    unsigned long state;
};

/* "  0: 0100007F:1F90 00000000:0000 0A ...": addresses are words in this machine's byte order. */
static bool read_entry(const char *line, struct socket_entry *entry)
{
    const char *at = strchr(line, ':');
    if (!at)
        return false;
    at += 1 + strspn(at + 1, " ");
    const size_t words = strspn(at, "0123456789ABCDEFabcdef") / WORD_DIGITS;
    if (words != 1 && words != 4)
        return false;
    memcpy(entry->address, mapped, sizeof mapped);
    for (size_t i = 0; i < words; i++, at += WORD_DIGITS) {
        char digits[WORD_DIGITS + 1] = "";
        memcpy(digits, at, WORD_DIGITS);
        const uint32_t word = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(entry->address + (words == 1 ? sizeof mapped : i * sizeof word), &word, sizeof word);
    }
    char *behind;
    entry->port = *at ? strtoul(at + 1, &behind, 16) : 0;
    const char *const remote_port = *at ? strchr(behind, ':') : NULL;
    if (!remote_port)
        return false;
    strtoul(remote_port + 1, &behind, 16);
    entry->state = strtoul(behind, NULL, 16);
    return true;
}

static void write_address(const struct socket_address *at, unsigned char address[ADDRESS_SIZE])
{
    if (at->sockaddr.any.sa_family == AF_INET6) {
        memcpy(address, &at->sockaddr.v6.sin6_addr, ADDRESS_SIZE);
    } else {
        memcpy(address, mapped, sizeof mapped);
        memcpy(address + sizeof mapped, &at->sockaddr.v4.sin_addr, sizeof at->sockaddr.v4.sin_addr);
    }
}

/* A socket on :: accepts IPv4 as well, unless it has IPV6_V6ONLY, which is in no table. */
static bool covers(const unsigned char *bound, const unsigned char *wanted)
{
    const bool is_v4 = memcmp(wanted, mapped, sizeof mapped) == 0;
    const bool bound_v4 = memcmp(bound, mapped, sizeof mapped) == 0;
    if (memcmp(bound, zeros, ADDRESS_SIZE) == 0 || memcmp(bound, wanted, ADDRESS_SIZE) == 0)
        return true;
    if (is_v4 && memcmp(wanted + sizeof mapped, zeros, 4) == 0)
        return true; /* any address is wanted */
    if (memcmp(wanted, zeros, ADDRESS_SIZE) == 0)
        return true;
    return is_v4 && bound_v4 && memcmp(bound + sizeof mapped, zeros, 4) == 0;
}

static bool proc_has_socket(const char *path, unsigned long state, int port,
                            const unsigned char *wanted)
{
    char line[512];
    struct socket_entry entry;
    bool has = false;
    FILE *table = fopen(path, "re");
    while (table && !has && fgets(line, sizeof line, table))
        has = read_entry(line, &entry) && entry.state == state &&
              entry.port == (unsigned long)port && covers(entry.address, wanted);
    if (table)
        fclose(table);
    return has;
}

enum answer { NO, YES, UNKNOWN };

static bool is_wanted(const struct inet_diag_msg *message, int port, const unsigned char *wanted)
{
    unsigned char address[ADDRESS_SIZE];
    memcpy(address, mapped, sizeof mapped);
    if (message->idiag_family == AF_INET6)
        memcpy(address, message->id.idiag_src, ADDRESS_SIZE);
    else
        memcpy(address + sizeof mapped, message->id.idiag_src, ADDRESS_SIZE - sizeof mapped);
    return ntohs(message->id.idiag_sport) == port && covers(address, wanted);
}

static enum answer read_answers(int fd, int port, const unsigned char *wanted)
{
    union {
        struct nlmsghdr first;
        char bytes[16384];
    } got;
    enum answer answer = NO;
    for (;;) {
        const ssize_t size = recv(fd, &got, sizeof got, 0);
        unsigned left = size > 0 ? (unsigned)size : 0;
        if (!left)
            return UNKNOWN;
        for (struct nlmsghdr *head = &got.first; NLMSG_OK(head, left);
             head = NLMSG_NEXT(head, left)) {
            if (head->nlmsg_type == NLMSG_DONE)
                return answer;
            if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
                return UNKNOWN;
            if (is_wanted(NLMSG_DATA(head), port, wanted))
                answer = YES;
        }
    }
}

/* Netlink (sock_diag(7)) answers within tens of microseconds, since the kernel searches only
 * sockets of this state; the tables in /proc contain all connections. */
static enum answer query_kernel(bool udp, int family, int port, const unsigned char *wanted)
{
    const struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 asked;
    } request = {
        .head = {.nlmsg_len = sizeof request,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .asked = {.sdiag_family = (unsigned char)family,
                  .sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP,
                  .idiag_states = 1U << (udp ? UDP_STATE : TCP_STATE),
                  .id = {.idiag_sport = htons((uint16_t)port)}},
    };
    const int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    enum answer answer = UNKNOWN;
    if (fd >= 0 && send(fd, &request, sizeof request, 0) == sizeof request)
        answer = read_answers(fd, port, wanted);
    if (fd >= 0)
        close(fd);
    return answer;
}

static bool has_socket(bool udp, int family, int port, const unsigned char *wanted)
{
    const bool six = family == AF_INET6;
    const enum answer answer = query_kernel(udp, family, port, wanted);
    if (answer != UNKNOWN)
        return answer == YES;
    if (udp)
        return proc_has_socket(six ? "/proc/net/udp6" : "/proc/net/udp", UDP_STATE, port, wanted);
    return proc_has_socket(six ? "/proc/net/tcp6" : "/proc/net/tcp", TCP_STATE, port, wanted);
}

bool port_is_bound(bool udp, const struct socket_address *at, int port)
{
    unsigned char wanted[ADDRESS_SIZE];
    write_address(at, wanted);
    return has_socket(udp, AF_INET, port, wanted) || has_socket(udp, AF_INET6, port, wanted);
}

bool port_can_be_bound(bool udp, const struct socket_address *at)
{
    const int type = udp ? SOCK_DGRAM : SOCK_STREAM;
    const int fd = socket(at->sockaddr.any.sa_family, type | SOCK_CLOEXEC, 0);
    const bool can = fd < 0 || bind(fd, &at->sockaddr.any, at->size) == 0 || errno != EADDRINUSE;
    if (fd >= 0)
        close(fd);
    return can;
}
