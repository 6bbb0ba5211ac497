/* What opens a data connection: nothing but a header of the job with its cookie is taken, and what
 * is taken is written back the same. */
#include "../osmef-agent/opening.h"

#include <stdlib.h>
#include <string.h>

#define ZEROS_AT 28
#define ZEROS 4

static void check(struct opening expected, const uint8_t *text)
{
    static const unsigned char zeros[ZEROS];
    unsigned char again[OPENING_SIZE];
    const bool learns = expected.flows == 0;
    const int flow = opening_check(&expected, text);
    if (flow < 0)
        return;
    if (expected.flows < 1 || expected.flows > MAX_FLOWS || flow >= expected.flows)
        abort();
    opening_write(&expected, flow, again);
    if (learns && memcmp(text + ZEROS_AT, zeros, ZEROS) == 0 &&
        memcmp(text, again, OPENING_SIZE) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size != OPENING_SIZE)
        return 0;
    for (int kind = OPENING_BULK; kind <= OPENING_SIZES; kind++) {
        check((struct opening){.kind = (enum opening_kind)kind}, data);
        check((struct opening){.kind = (enum opening_kind)kind, .flows = 2}, data);
    }
    return 0;
}
