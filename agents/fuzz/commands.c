/* Commands: any line is read or refused by every kind of job. */
#include "../osmef-agent/json.h"
#include "../osmef-agent/kind.h"

#include <stdlib.h>
#include <string.h>

static void read_line(const char *text, size_t length, const struct kind *kind)
{
    struct json_object command;
    char problem[PROBLEM_SIZE];
    char id[ID_SIZE];
    char *const line = malloc(length + 1);
    memcpy(line, text, length);
    line[length] = '\n'; /* as in the agent's buffer */
    if (!json_parse(line, length, &command)) {
        field_id(&command, id);
        if (!kind->read(&command, problem) && strlen(problem) >= PROBLEM_SIZE)
            abort();
    }
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (const struct kind *const *kind = kinds; *kind; kind++)
        read_line((const char *)data, size, *kind);
    return 0;
}
