/* The threads of a size sweep: what one end says before each batch, and when it is timed. */
#include "bytes.h"
#include "clock.h"
#include "sizes.h"

/* 0-7 size, 8-15 repetitions, 16-19 number of the batch, 20 mode, 21 whether it is checked, 22-23
 * zero; big endian. Size 0 ends the sweep. */
#define HEADER_SIZE 24
#define READY '+'
enum { SIZE_AT = 0, REPETITIONS_AT = 8, NUMBER_AT = 16, MODE_AT = 20, CHECK_AT = 21 };

static bool announce(struct hand *hand, const struct sizes_params *params,
                     const struct batch *batch)
{
    unsigned char header[HEADER_SIZE] = {0};
    put(header + SIZE_AT, 8, batch->size);
    put(header + REPETITIONS_AT, 8, batch->repetitions);
    put(header + NUMBER_AT, 4, batch->number);
    put(header + MODE_AT, 1, (uint64_t)params->mode);
    put(header + CHECK_AT, 1, params->check);
    return hand_send(hand, header, sizeof header);
}

static bool await_ready(struct hand *hand)
{
    unsigned char answer = 0;
    if (!hand_receive(hand, &answer, 1))
        return false;
    return answer == READY ||
           hand_fail(hand, "protocol", "the peer answers a batch with 0x%02x", answer);
}

/* Each batch begins when all flows are there, and the next when all are done. */
static bool lead(struct hand *hand, struct sizes *sizes)
{
    struct mover *mover = &sizes->movers[hand->index];
    while (hand_meet(hand, sizes_schedule_next)) {
        const struct batch batch = sizes->batch;
        if (!announce(hand, &sizes->params, &batch))
            return false;
        if (batch.size == 0)
            return hand_end(hand);
        if (!await_ready(hand) || !hand_meet(hand, NULL))
            return false;
        const int64_t begun_ns = now_ns();
        if (!sizes_move(hand, mover, &batch))
            return false;
        mover->batch_s = ns_seconds(now_ns() - begun_ns) / (double)batch.repetitions;
    }
    return false;
}

static bool is_wrong(const struct sizes_params *params, const unsigned char *header,
                     const struct batch *batch, uint32_t number)
{
    return batch->size > params->max_size || batch->number != number ||
           (batch->size > 0 && (batch->repetitions < 1 || batch->repetitions > MOST_REPETITIONS)) ||
           header[MODE_AT] != params->mode || header[CHECK_AT] != params->check;
}

static bool follow(struct hand *hand, struct sizes *sizes)
{
    static const unsigned char ready = READY;
    struct mover *mover = &sizes->movers[hand->index];
    for (uint32_t number = 0;; number++) {
        unsigned char header[HEADER_SIZE];
        if (!hand_receive(hand, header, sizeof header))
            return false;
        const struct batch batch = {get(header + SIZE_AT, 8), get(header + REPETITIONS_AT, 8),
                                    (uint32_t)get(header + NUMBER_AT, 4)};
        if (is_wrong(&sizes->params, header, &batch, number))
            return hand_fail(hand, "protocol",
                             "batch %u is not what this end expects; give both the same max_size, "
                             "mode and check",
                             number);
        if (batch.size == 0)
            return hand_end_too(hand);
        if (!hand_send(hand, &ready, 1) || !sizes_move(hand, mover, &batch))
            return false;
    }
}

bool sizes_work(struct hand *hand)
{
    struct sizes *sizes = (struct sizes *)hand->crew; /* its first member */
    return hand->crew->params->listens ? follow(hand, sizes) : lead(hand, sizes);
}
