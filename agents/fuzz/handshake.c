/* The handshake of a data connection: only that of the job with its cookie is accepted, and what is
 * accepted is written in the same way. */
#include "../osmef-agent/handshake.h"

#include <stdlib.h>
#include <string.h>

#define ZEROS_AT 28
#define ZEROS 4

static void check(struct handshake expected, const uint8_t *text)
{
    static const unsigned char zeros[ZEROS];
    unsigned char again[HANDSHAKE_SIZE];
    const bool learns = expected.flows == 0;
    const int flow = handshake_check(&expected, text);
    if (flow < 0)
        return;
    if (expected.flows < 1 || expected.flows > MAX_FLOWS || flow >= expected.flows)
        abort();
    handshake_write(&expected, flow, again);
    if (learns && memcmp(text + ZEROS_AT, zeros, ZEROS) == 0 &&
        memcmp(text, again, HANDSHAKE_SIZE) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size != HANDSHAKE_SIZE)
        return 0;
    for (int kind = HANDSHAKE_BULK; kind <= HANDSHAKE_SIZES; kind++) {
        check((struct handshake){.kind = (enum handshake_kind)kind}, data);
        check((struct handshake){.kind = (enum handshake_kind)kind, .flows = 2}, data);
    }
    return 0;
}
