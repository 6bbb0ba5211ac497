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

/* Has each whole line that is in hand obeyed, and keeps the rest. */
static void take_lines(struct commands *c, void (*obey)(void *whom, char *line, size_t length),
                       void *whom)
{
    char *line = c->line;
    char *end;
    while ((end = memchr(line, '\n', c->used - (size_t)(line - c->line)))) {
        if (!c->too_long)
            obey(whom, line, (size_t)(end - line));
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

bool commands_read(struct commands *c, void (*obey)(void *whom, char *line, size_t length),
                   void *whom)
{
    const ssize_t n = read(c->in, c->line + c->used, LINE_SIZE - c->used);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0)
        return false;
    c->used += (size_t)n;
    take_lines(c, obey, whom);
    return true;
}
