#include "out.h"

#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The largest event is the result of 1000 flows, about 800 KB. */
#define CAPACITY (2 * 1024 * 1024)
#define STUCK_MS 10000
/* A pipe that poll() calls writable takes this much without blocking (POSIX: PIPE_BUF). */
#define CHUNK 4096

static char buffer[CAPACITY];
static size_t used;

void out_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(buffer + used, CAPACITY - used, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= CAPACITY - used)
        abort();
    used += (size_t)length;
}

void out_string(const char *text)
{
    out_format("\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            out_format("\\%c", *text);
        else
            out_format("%c", *text >= ' ' && *text <= '~' ? *text : '?');
    }
    out_format("\"");
}

void out_line(void)
{
    out_format("\n");
    for (size_t done = 0; done < used;) {
        struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
        const int ready = poll(&out, 1, STUCK_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            _exit(1);
        const ssize_t n =
            write(STDOUT_FILENO, buffer + done, used - done < CHUNK ? used - done : CHUNK);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            _exit(1);
        done += n > 0 ? (size_t)n : 0;
    }
    used = 0;
}
