/* The threads of a size sweep: the header of each batch, its time, and its messages with the check
 * of their contents. */
#include "bytes.h"
#include "clock.h"
#include "sizes.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* A thread that waits for a writable socket checks this often whether the job was cancelled. */
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

/* The contents of a message depend on its size, its position in the sweep and its direction, so
 * that a message out of order, or an echo, is detected. */
static uint64_t seed_of(const struct batch *batch, uint64_t repetition, bool from_listener)
{
    return mix(mix(mix(batch->size) + batch->number) + 2 * repetition + from_listener);
}

/* Eight bytes of the contents, little endian. */
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

static bool is_intact(struct flow_thread *thread, const unsigned char *data,
                      const struct batch *batch, uint64_t repetition, uint64_t seed)
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
        return thread_fail(thread, "corrupt",
                           "size %llu, batch %u, repetition %llu: byte %zu is 0x%02x, not 0x%02x",
                           (unsigned long long)batch->size, batch->number,
                           (unsigned long long)repetition, at + i, data[at + i], bytes[i]);
    }
    return true;
}

/* One end of a batch. */
struct end {
    struct flow_thread *thread;
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
    return !end->check || is_intact(end->thread, end->mover->in, end->batch, repetition,
                                    seed_of(end->batch, repetition, !end->listens));
}

static bool send_one(const struct end *end, uint64_t repetition)
{
    prepare_message(end, repetition);
    end->mover->messages++;
    return thread_send(end->thread, end->mover->out, end->batch->size);
}

static bool receive_one(const struct end *end, uint64_t repetition)
{
    return thread_receive(end->thread, end->mover->in, end->batch->size) &&
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

/* A batch of a stream ends when the peer has acknowledged its arrival. */
static bool acknowledge(const struct end *end)
{
    unsigned char arrived = ARRIVED;
    if (end->listens)
        return thread_send(end->thread, &arrived, 1);
    arrived = 0;
    if (!thread_receive(end->thread, &arrived, 1))
        return false;
    return arrived == ARRIVED || thread_fail(end->thread, "protocol",
                                             "the peer acknowledges a batch with 0x%02x", arrived);
}

/* Waits until the socket is readable or writable. */
static bool wait_for_either(struct flow_thread *thread)
{
    struct pollfd fd = {.fd = thread->fd, .events = POLLIN | POLLOUT};
    return (poll(&fd, 1, POLL_MS) >= 0 || errno == EINTR) && !thread_is_cancelled(thread);
}

/* The result of a nonblocking call: the bytes, 0 when it would block, or -1 after thread_fail(). */
static ssize_t move_now(struct flow_thread *thread, ssize_t n)
{
    if (n > 0) {
        thread_moved(thread);
        return n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    thread_broken(thread, n < 0 ? errno : ECONNRESET);
    return -1;
}

/* Both ends send at the same time. With a blocking send() each could wait for the other. */
static bool swap(const struct end *end, uint64_t repetition)
{
    struct flow_thread *thread = end->thread;
    const size_t size = end->batch->size;
    size_t sent = 0, got = 0;
    prepare_message(end, repetition);
    end->mover->messages++;
    while (sent < size) {
        const ssize_t out = move_now(thread, send(thread->fd, end->mover->out + sent, size - sent,
                                                  MSG_NOSIGNAL | MSG_DONTWAIT));
        if (out < 0)
            return false;
        sent += (size_t)out;
        ssize_t in = 0;
        if (got < size && sent < size)
            in = move_now(thread, recv(thread->fd, end->mover->in + got, size - got, MSG_DONTWAIT));
        if (in < 0 || (out == 0 && in == 0 && !wait_for_either(thread)))
            return false;
        got += (size_t)in;
    }
    return thread_receive(thread, end->mover->in + got, size - got) &&
           check_message(end, repetition);
}

static bool move_batch(struct flow_thread *thread, struct mover *mover, const struct batch *batch)
{
    static bool (*const modes[])(const struct end *, uint64_t) = {pingpong, stream, swap};
    const struct sizes *sizes = (const struct sizes *)thread->threads; /* its first member */
    const struct end end = {thread, mover, batch, thread->threads->params->listens,
                            sizes->params.check};
    for (uint64_t i = 0; i < batch->repetitions; i++)
        if (!modes[sizes->params.mode](&end, i))
            return false;
    return sizes->params.mode != STREAM || acknowledge(&end);
}

/* 0-7 size, 8-15 repetitions, 16-19 number of the batch, 20 mode, 21 whether it is checked, 22-23
 * zero; big endian. Size 0 ends the sweep. */
#define HEADER_SIZE 24
#define READY '+'
enum { SIZE_AT = 0, REPETITIONS_AT = 8, NUMBER_AT = 16, MODE_AT = 20, CHECK_AT = 21 };

static bool announce(struct flow_thread *thread, const struct sizes_params *params,
                     const struct batch *batch)
{
    unsigned char header[HEADER_SIZE] = {0};
    put(header + SIZE_AT, 8, batch->size);
    put(header + REPETITIONS_AT, 8, batch->repetitions);
    put(header + NUMBER_AT, 4, batch->number);
    put(header + MODE_AT, 1, (uint64_t)params->mode);
    put(header + CHECK_AT, 1, params->check);
    return thread_send(thread, header, sizeof header);
}

static bool await_ready(struct flow_thread *thread)
{
    unsigned char answer = 0;
    if (!thread_receive(thread, &answer, 1))
        return false;
    return answer == READY ||
           thread_fail(thread, "protocol", "the peer answers a batch with 0x%02x", answer);
}

/* Each batch begins when all flows are ready, and the next one when all have ended. */
static bool lead(struct flow_thread *thread, struct sizes *sizes)
{
    struct mover *mover = &sizes->movers[thread->index];
    while (thread_barrier_wait(thread, sizes_schedule_next)) {
        const struct batch batch = sizes->batch;
        if (!announce(thread, &sizes->params, &batch))
            return false;
        if (batch.size == 0)
            return thread_end(thread);
        if (!await_ready(thread) || !thread_barrier_wait(thread, NULL))
            return false;
        const int64_t begun_ns = now_ns();
        if (!move_batch(thread, mover, &batch))
            return false;
        mover->batch_s = ns_seconds(now_ns() - begun_ns) / (double)batch.repetitions;
    }
    return false;
}

static bool is_wrong(const struct sizes_params *params, const unsigned char *header,
                     const struct batch *batch, uint32_t number)
{
    return batch->size > params->max_size || batch->number != number ||
           (batch->size > 0 && (batch->repetitions < 1 || batch->repetitions > MAX_REPETITIONS)) ||
           header[MODE_AT] != params->mode || header[CHECK_AT] != params->check;
}

static bool follow(struct flow_thread *thread, struct sizes *sizes)
{
    static const unsigned char ready = READY;
    struct mover *mover = &sizes->movers[thread->index];
    for (uint32_t number = 0;; number++) {
        unsigned char header[HEADER_SIZE];
        if (!thread_receive(thread, header, sizeof header))
            return false;
        const struct batch batch = {get(header + SIZE_AT, 8), get(header + REPETITIONS_AT, 8),
                                    (uint32_t)get(header + NUMBER_AT, 4)};
        if (is_wrong(&sizes->params, header, &batch, number))
            return thread_fail(
                thread, "protocol",
                "batch %u is not what this end expects; give both the same max_size, "
                "mode and check",
                number);
        if (batch.size == 0)
            return thread_end_too(thread);
        if (!thread_send(thread, &ready, 1) || !move_batch(thread, mover, &batch))
            return false;
    }
}

bool sizes_work(struct flow_thread *thread)
{
    struct sizes *sizes = (struct sizes *)thread->threads; /* its first member */
    if (thread->threads->params->listens)
        return follow(thread, sizes);
    return thread_wait_gate(thread, GATE_OPEN) && lead(thread, sizes);
}
