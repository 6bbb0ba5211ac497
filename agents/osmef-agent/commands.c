#include "commands.h"

#include "out.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void protocol_error(const char *message)
{
    out_format("{\"event\":\"error\",\"id\":null,\"kind\":\"protocol\",\"message\":");
    out_string(message);
    out_format("}");
    out_line();
}

/* Handles each complete line of the buffer, and keeps the rest. */
static void handle_lines(struct commands *c,
                         void (*handle)(void *context, char *line, size_t length), void *context)
{
    char *line = c->line;
    char *end;
    while ((end = memchr(line, '\n', c->used - (size_t)(line - c->line)))) {
        if (!c->too_long)
            handle(context, line, (size_t)(end - line));
        c->too_long = false;
        line = end + 1;
    }
    c->used -= (size_t)(line - c->line);
    memmove(c->line, line, c->used);
    if (c->used == LINE_SIZE) {
        if (!c->too_long)
            protocol_error("a command is longer than 16 KiB");
        c->too_long = true;
        c->used = 0;
    }
}

bool commands_read(struct commands *c, void (*handle)(void *context, char *line, size_t length),
                   void *context)
{
    const ssize_t n = read(c->in, c->line + c->used, LINE_SIZE - c->used);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0)
        return false;
    c->used += (size_t)n;
    handle_lines(c, handle, context);
    return true;
}
