/* The messages of a size sweep: the data path, and the check of what arrives. */
#include "sizes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* A thread that waits for room to send sees that the job was cancelled within this time. */
#define POLL_MS 100
#define ARRIVED '+'

/* SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014). */
static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* What a message holds depends on its size, its place in the sweep and its direction: a message
 * that is late, early or one's own is found. */
static uint64_t seed_of(const struct batch *batch, uint64_t repetition, bool from_listener)
{
    return mix(mix(mix(batch->size) + batch->number) + 2 * repetition + from_listener);
}

/* Eight bytes of the content, the lowest first. */
static void make_word(uint64_t seed, size_t word, unsigned char bytes[8])
{
    const uint64_t value = mix(seed + word);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

static void fill(unsigned char *data, size_t size, uint64_t seed)
{
    unsigned char bytes[8];
    for (size_t at = 0; at < size; at += 8) {
        make_word(seed, at / 8, bytes);
        memcpy(data + at, bytes, size - at < 8 ? size - at : 8);
    }
}

static bool is_intact(struct hand *hand, const unsigned char *data, const struct batch *batch,
                      uint64_t repetition, uint64_t seed)
{
    unsigned char bytes[8];
    for (size_t at = 0; at < batch->size; at += 8) {
        const size_t length = batch->size - at < 8 ? batch->size - at : 8;
        make_word(seed, at / 8, bytes);
        if (memcmp(data + at, bytes, length) == 0)
            continue;
        size_t i = 0;
        while (data[at + i] == bytes[i])
            i++;
        return hand_fail(hand, "corrupt",
                         "size %llu, batch %u, repetition %llu: byte %zu is 0x%02x, not 0x%02x",
                         (unsigned long long)batch->size, batch->number,
                         (unsigned long long)repetition, at + i, data[at + i], bytes[i]);
    }
    return true;
}

/* One end of a batch. */
struct end {
    struct hand *hand;
    struct mover *mover;
    const struct batch *batch;
    bool listens;
    bool check;
};

static void prepare_message(const struct end *end, uint64_t repetition)
{
    if (end->check)
        fill(end->mover->out, end->batch->size, seed_of(end->batch, repetition, end->listens));
}

static bool check_message(const struct end *end, uint64_t repetition)
{
    end->mover->messages++;
    return !end->check || is_intact(end->hand, end->mover->in, end->batch, repetition,
                                    seed_of(end->batch, repetition, !end->listens));
}

static bool send_one(const struct end *end, uint64_t repetition)
{
    prepare_message(end, repetition);
    end->mover->messages++;
    return hand_send(end->hand, end->mover->out, end->batch->size);
}

static bool receive_one(const struct end *end, uint64_t repetition)
{
    return hand_receive(end->hand, end->mover->in, end->batch->size) &&
           check_message(end, repetition);
}

static bool pingpong(const struct end *end, uint64_t repetition)
{
    if (end->listens)
        return receive_one(end, repetition) && send_one(end, repetition);
    return send_one(end, repetition) && receive_one(end, repetition);
}

static bool stream(const struct end *end, uint64_t repetition)
{
    return end->listens ? receive_one(end, repetition) : send_one(end, repetition);
}

/* What has been streamed counts when it has arrived. */
static bool acknowledge(const struct end *end)
{
    unsigned char arrived = ARRIVED;
    if (end->listens)
        return hand_send(end->hand, &arrived, 1);
    arrived = 0;
    if (!hand_receive(end->hand, &arrived, 1))
        return false;
    return arrived == ARRIVED ||
           hand_fail(end->hand, "protocol", "the peer acknowledges a batch with 0x%02x", arrived);
}

/* Waits until something can be received or sent. */
static bool wait_for_either(struct hand *hand)
{
    struct pollfd fd = {.fd = hand->fd, .events = POLLIN | POLLOUT};
    return (poll(&fd, 1, POLL_MS) >= 0 || errno == EINTR) && !hand_is_cancelled(hand);
}

/* Moves what can be moved at once. Returns the bytes, or -1 after hand_fail(). */
static ssize_t move_now(struct hand *hand, ssize_t n)
{
    if (n > 0) {
        hand_moved(hand);
        return n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    hand_broken(hand, n < 0 ? errno : ECONNRESET);
    return -1;
}

/* Both ends send at once. A blocking send() would wait for a peer that waits in its own. */
static bool swap(const struct end *end, uint64_t repetition)
{
    struct hand *hand = end->hand;
    const size_t size = end->batch->size;
    size_t sent = 0, got = 0;
    prepare_message(end, repetition);
    end->mover->messages++;
    while (sent < size) {
        const ssize_t out = move_now(
            hand, send(hand->fd, end->mover->out + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (out < 0)
            return false;
        sent += (size_t)out;
        ssize_t in = 0;
        if (got < size && sent < size)
            in = move_now(hand, recv(hand->fd, end->mover->in + got, size - got, MSG_DONTWAIT));
        if (in < 0 || (out == 0 && in == 0 && !wait_for_either(hand)))
            return false;
        got += (size_t)in;
    }
    return hand_receive(hand, end->mover->in + got, size - got) && check_message(end, repetition);
}

bool sizes_move(struct hand *hand, struct mover *mover, const struct batch *batch)
{
    static bool (*const modes[])(const struct end *, uint64_t) = {pingpong, stream, swap};
    const struct sizes *sizes = (const struct sizes *)hand->crew; /* its first member */
    const struct end end = {hand, mover, batch, hand->crew->params->listens, sizes->params.check};
    for (uint64_t i = 0; i < batch->repetitions; i++)
        if (!modes[sizes->params.mode](&end, i))
            return false;
    return sizes->params.mode != STREAM || acknowledge(&end);
}
