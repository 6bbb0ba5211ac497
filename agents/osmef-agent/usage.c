#include "usage.h"

#include "number.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BAD_USAGE 2

_Noreturn void bad_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("osmef-agent: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n  cure: osmef-agent --help lists the options\n", stderr);
    va_end(arguments);
    exit(BAD_USAGE);
}

double usage_number(const char *option, const char *text, double low, double high)
{
    double value;
    const char *const end = number_read(text, &value);
    if (!end || *end || !(value >= low && value <= high))
        bad_usage("%s is %s, but must be a number from %g to %g", option, text, low, high);
    return value;
}

/* An IPv6 socket takes IPv4 as well, but some kernels have no IPv6. */
const char *usage_any_address(void)
{
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return "0.0.0.0";
    close(fd);
    return "::";
}
