#include "exercise.h"

#include "base/half.h"
#include "base/rng.h"
#include "kernels/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype types[] = {DTYPE_F32,  DTYPE_F64, DTYPE_F16,
                                   DTYPE_BF16, DTYPE_I32, DTYPE_U8};
enum { TYPES = sizeof types / sizeof *types, UNTOUCHED = 0x5a, MOST_REPORTED = 5 };

/* --- values --- */

/* Element i of the data that this rank sends. Values are small: sums over 16 ranks are exact in
 * every type. */
static int value_of(int rank, int64_t i)
{
    return (int)((rank * 7 + i * 13) % 13) - (rank % 2 ? 6 : 2);
}

static void put(enum dtype type, void *data, int64_t i, double value)
{
    switch (type) {
    case DTYPE_F32:
        ((float *)data)[i] = (float)value;
        break;
    case DTYPE_F64:
        ((double *)data)[i] = value;
        break;
    case DTYPE_F16:
        ((uint16_t *)data)[i] = f16_from_float((float)value);
        break;
    case DTYPE_BF16:
        ((uint16_t *)data)[i] = bf16_from_float((float)value);
        break;
    case DTYPE_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)(int)value;
        break;
    }
}

static double reduced(const struct comm *c, enum comm_reduction reduction, int64_t i)
{
    int result = value_of(0, i);
    for (int r = 1; r < comm_size(c); r++) {
        int v = value_of(r, i);
        if (reduction == COMM_SUM || reduction == COMM_AVG)
            result += v;
        else if (reduction == COMM_MAX ? v > result : v < result)
            result = v;
    }
    return reduction == COMM_AVG ? (double)result / comm_size(c) : result;
}

/* Returns the value that element i of `recv` must have after `op`. */
static double expected(const struct comm *c, const struct comm_op *op, int64_t i)
{
    int rank = comm_rank(c), size = comm_size(c);
    switch (op->kind) {
    case COMM_BROADCAST:
        return value_of(op->root, i);
    case COMM_ALLGATHER:
        return value_of((int)(i / op->count), i % op->count);
    case COMM_REDUCE_SCATTER:
        return reduced(c, op->reduction, rank * op->count + i);
    case COMM_ALLTOALL:
        return value_of((int)(i / op->count), rank * op->count + i % op->count);
    case COMM_GATHER:
        return value_of((int)(i / op->count), i % op->count);
    case COMM_SCATTER:
        return value_of(op->root, rank * op->count + i);
    case COMM_SENDRECV:
        return value_of((rank + size - 1) % size, i);
    default:
        return reduced(c, op->reduction, i);
    }
}

/* --- device memory --- */

/* A stream for the tests, and the events of an operation that waits for the stream. */
struct lane {
    const struct backend *backend;
    struct device *device;
    struct stream *stream;
    struct event *ready, *began, *over;
};

static enum status lane_open(struct comm *c, struct lane *l)
{
    *l = (struct lane){.device = comm_device(c), .backend = comm_device(c)->backend};
    TRY(l->backend->stream_open(l->device, &l->stream));
    TRY(l->backend->event_open(l->device, &l->ready));
    TRY(l->backend->event_open(l->device, &l->began));
    return l->backend->event_open(l->device, &l->over);
}

static void lane_close(struct lane *l)
{
    l->backend->stream_close(l->stream);
    l->backend->event_close(l->ready);
    l->backend->event_close(l->began);
    l->backend->event_close(l->over);
}

/* Copies the buffers of `op`, `bytes` each, from host memory to device memory, executes `op` there
 * and copies the result back. The host does not wait between the first upload and the last
 * download. */
static enum status run_on_lane(struct comm *c, struct lane *l, struct comm_op *op, size_t bytes)
{
    const struct backend *b = l->backend;
    void *host_recv = op->recv;
    const char *host_send = op->send;
    ptrdiff_t within = host_send - (char *)host_recv;
    bool in_place = host_send && within >= 0 && (size_t)within < bytes;
    void *send, *recv;
    TRY(b->alloc(l->device, bytes, &send));
    TRY(b->alloc(l->device, bytes, &recv));
    if (host_send && !in_place)
        TRY(b->upload(l->stream, send, host_send, bytes));
    TRY(b->upload(l->stream, recv, host_recv, bytes));
    TRY(b->event_record(l->ready, l->stream));
    op->send = in_place ? (char *)recv + within : send;
    op->recv = recv;
    op->after = l->ready;
    op->began = l->began;
    op->over = l->over;
    TRY(comm_start(c, op));
    TRY(comm_wait_on(c, op, l->stream));
    TRY(b->download(l->stream, host_recv, recv, bytes));
    TRY(b->stream_sync(l->stream));
    b->free(l->device, send);
    b->free(l->device, recv);
    op->send = host_send;
    op->recv = host_recv;
    if (b->event_seconds(l->ready, l->began) < 0 || b->event_seconds(l->began, l->over) < 0)
        return status_fail(STATUS_MISMATCH, "the events are not in order");
    return STATUS_OK;
}

/* Executes `op`, whose buffers are in host memory. If the communicator requires device memory, `op`
 * is executed on copies of the buffers. */
static enum status run_anywhere(struct comm *c, struct comm_op *op, size_t bytes)
{
    struct lane l;
    if (!comm_device(c))
        return comm_run(c, op);
    TRY(lane_open(c, &l));
    enum status st = run_on_lane(c, &l, op, bytes);
    lane_close(&l);
    return st;
}

/* --- one operation --- */

static int report(const struct comm *c, const struct comm_op *op, const char *what)
{
    printf("FAILED: rank %d of %d (%s): %s of %" PRId64 " %s, reduction %d, root %d: %s\n",
           comm_rank(c), comm_size(c), comm_name(c), comm_kind_str(op->kind), op->count,
           dtype_str(op->type), (int)op->reduction, op->root, what);
    return 1;
}

static void fill(const struct comm *c, enum dtype type, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        put(type, data, i, value_of(comm_rank(c), i));
}

/* Compares `recv` with the expected data. The byte after `recv` must be unchanged. If `op` writes
 * no result on this rank, all of `recv` must be unchanged. */
static int check(const struct comm *c, const struct comm_op *op, int64_t received)
{
    size_t element = dtype_size(op->type);
    const char *recv = op->recv;
    bool to_root = op->kind == COMM_REDUCE || op->kind == COMM_GATHER;
    bool written = !to_root || comm_rank(c) == op->root;
    for (int64_t i = 0; i < received; i++) {
        char want[8];
        if (written)
            put(op->type, want, 0, expected(c, op, i));
        else if (op->send == op->recv)
            put(op->type, want, 0, value_of(comm_rank(c), i));
        else
            memset(want, UNTOUCHED, sizeof want);
        if (memcmp(want, recv + (size_t)i * element, element) != 0) {
            char what[64];
            snprintf(what, sizeof what, "element %" PRId64 " is wrong", i);
            return report(c, op, what);
        }
    }
    if (recv[(size_t)received * element] != UNTOUCHED)
        return report(c, op, "wrote behind the end");
    return 0;
}

/* Fills the send and receive buffers of `op`, executes `op` and checks the result. */
static int run_one(struct comm *c, struct comm_op op, bool in_place)
{
    int64_t size = comm_size(c), most = op.count * size, sent = op.count, received = op.count;
    size_t bytes = (size_t)(most + 1) * dtype_size(op.type);
    char *send = malloc(bytes), *recv = malloc(bytes);
    if (op.kind == COMM_REDUCE_SCATTER || op.kind == COMM_ALLTOALL || op.kind == COMM_SCATTER)
        sent = most;
    if (op.kind == COMM_ALLGATHER || op.kind == COMM_ALLTOALL || op.kind == COMM_GATHER)
        received = most;
    memset(recv, UNTOUCHED, bytes);
    fill(c, op.type, send, sent);
    op.send = send;
    op.recv = recv;
    if (op.kind == COMM_BROADCAST && comm_rank(c) == op.root)
        fill(c, op.type, recv, op.count);
    if (in_place) {
        size_t at = op.kind == COMM_ALLGATHER ? (size_t)comm_rank(c) * (size_t)op.count : 0;
        op.send =
            memcpy(recv + at * dtype_size(op.type), send, (size_t)op.count * dtype_size(op.type));
    }
    int failures;
    if (run_anywhere(c, &op, bytes) != STATUS_OK)
        failures = report(c, &op, status_message());
    else if (!comm_device(c) && (op.begun_ns <= 0 || op.ended_ns < op.begun_ns))
        failures = report(c, &op, "ended before it began");
    else
        failures = check(c, &op, received);
    free(send);
    free(recv);
    return failures;
}

static bool may_be_in_place(enum comm_kind kind)
{
    return kind == COMM_ALLREDUCE || kind == COMM_REDUCE || kind == COMM_ALLGATHER;
}

/* --- the exercises --- */

static int both_places(struct comm *c, struct comm_op op)
{
    int failures = run_one(c, op, false);
    return may_be_in_place(op.kind) ? failures + run_one(c, op, true) : failures;
}

static int every_type(struct comm *c, struct comm_op op)
{
    bool moves = !comm_reduces(op.kind);
    int failures = 0;
    for (int t = 0; t < TYPES; t++)
        for (int r = COMM_SUM; r <= (moves ? COMM_SUM : COMM_AVG); r++) {
            op.type = types[t];
            op.reduction = (enum comm_reduction)r;
            if (moves || op.type != DTYPE_U8)
                failures += both_places(c, op);
        }
    return failures;
}

int exercise_kinds(struct comm *c, int64_t largest)
{
    static const int64_t small[] = {0, 1, 7, 3001};
    /* Element counts at and above the limit of one MPI call (SMALL_BYTES in comm/mpi_flow.c), for 1
     * to 4 ranks. Data above this limit is transferred in segments. Some counts give one segment
     * and some give several; for some counts, the last segment is shorter than the others. */
    static const int64_t large[] = {16384, 16385, 65536, 262144 + 3, 1310720, 1700001};
    enum { SMALL = sizeof small / sizeof *small, LARGE = sizeof large / sizeof *large };
    int failures = 0, size = comm_size(c);
    for (int k = 0; k < COMM_BARRIER; k++) {
        struct comm_op op = {.kind = (enum comm_kind)k};
        for (int i = 0; i < SMALL; i++) {
            op.count = small[i];
            op.root = i % size;
            failures += every_type(c, op);
        }
        for (int i = 0; i < LARGE && large[i] <= largest; i++) {
            op.count = large[i];
            op.root = i % size;
            op.type = i % 2 ? DTYPE_F32 : DTYPE_F16;
            failures += both_places(c, op);
        }
    }
    struct comm_op barrier = {COMM_BARRIER};
    if (comm_run(c, &barrier) != STATUS_OK)
        failures += report(c, &barrier, status_message());
    return failures;
}

/* Fills the data with random bits. About one fp32 value in 256, and one fp16 value in 32, is a NaN
 * or an infinity. */
static void fill_bits(const struct comm *c, uint8_t *data, int64_t bytes, int64_t seed)
{
    struct rng r = rng_at((uint64_t)seed, RNG_TEST, (uint64_t)comm_rank(c), 0);
    for (int64_t i = 0; i < bytes; i += 4) {
        uint32_t bits = rng_u32(&r);
        memcpy(data + i, &bits, bytes - i < 4 ? (size_t)(bytes - i) : 4);
    }
}

static uint64_t hash_of(const uint8_t *data, size_t bytes)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ data[i]) * 1099511628211u;
    return h;
}

/* Sums `count` random elements over all ranks, and stores a hash of the sum. */
static int sum_bits(struct comm *c, enum dtype type, int64_t count, uint8_t *data, uint64_t *hash)
{
    size_t bytes = (size_t)count * dtype_size(type);
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,     type,
                         .send = data,   .recv = data, .count = count};
    fill_bits(c, data, (int64_t)bytes, count);
    if (run_anywhere(c, &op, bytes) != STATUS_OK)
        return report(c, &op, status_message());
    *hash = hash_of(data, bytes);
    return 0;
}

static int compare_bits(struct comm *c, enum dtype type, int64_t count, uint8_t *data,
                        uint64_t *all)
{
    uint64_t first = 0, again = 0;
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM, type, .count = count};
    struct comm_op gather = {COMM_ALLGATHER, COMM_SUM,
                             DTYPE_U8,       .send = all + comm_rank(c),
                             .recv = all,    .count = sizeof first};
    if (sum_bits(c, type, count, data, &first) || sum_bits(c, type, count, data, &again))
        return 1;
    all[comm_rank(c)] = first;
    if (run_anywhere(c, &gather, (size_t)comm_size(c) * sizeof first) != STATUS_OK)
        return report(c, &gather, status_message());
    for (int r = 0; r < comm_size(c); r++)
        if (all[r] != first)
            return report(c, &op, "ranks have different bits");
    return first == again ? 0 : report(c, &op, "the repeated sum has other bits");
}

int exercise_same_bits(struct comm *c, int64_t max_bytes)
{
    int failures = 0;
    uint8_t *data = malloc((size_t)max_bytes);
    uint64_t *all = malloc((size_t)comm_size(c) * sizeof *all);
    for (int64_t bytes = 8; bytes <= max_bytes; bytes *= 8) {
        failures += compare_bits(c, DTYPE_F32, bytes / 4, data, all);
        failures += compare_bits(c, DTYPE_F16, bytes / 2, data, all);
        failures += compare_bits(c, DTYPE_BF16, bytes / 2 - 1, data, all);
        failures += compare_bits(c, DTYPE_F64, bytes / 8, data, all);
    }
    failures += compare_bits(c, DTYPE_F32, max_bytes / 4, data, all);
    free(data);
    free(all);
    return failures;
}

int exercise_factor(struct comm *c)
{
    static const enum dtype float_types[] = {DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16};
    enum { COUNT = 3001, VALUE = 49152 }; /* VALUE + VALUE overflows fp16 */
    double data[COUNT + 1];
    char want[8];
    int failures = 0;
    for (size_t t = 0; t < sizeof float_types / sizeof *float_types; t++) {
        enum dtype type = float_types[t];
        struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,       type,          .send = data,
                             .recv = data,   .count = COUNT, .factor = 0.5f};
        for (int64_t i = 0; i < COUNT; i++)
            put(type, data, i, VALUE);
        put(type, want, 0, VALUE / 2 * comm_size(c));
        if (run_anywhere(c, &op, sizeof data) != STATUS_OK)
            failures += report(c, &op, status_message());
        for (size_t i = 0; i < COUNT && failures < MOST_REPORTED; i++)
            if (memcmp((char *)data + i * dtype_size(type), want, dtype_size(type)) != 0)
                failures += report(c, &op, "a scaled sum is wrong");
    }
    return failures;
}

/* Returns operation number k of a round. Its buffer begins at `data`. */
static struct comm_op nth_op(const struct comm *c, int k, int64_t count, float *data)
{
    return (struct comm_op){k % 5 == 4 ? COMM_BROADCAST : COMM_ALLREDUCE,
                            COMM_SUM,
                            DTYPE_F32,
                            .root = k % comm_size(c),
                            .send = data,
                            .recv = data,
                            .count = count};
}

enum { OPS = 24, LONGEST = 60000 };

static int64_t nth_count(int k, int round)
{
    return (k * 7919 + round * 104729) % LONGEST + 1;
}

/* Starts all operations of a round, then waits for them. Each rank waits in a different order. */
static int run_round(struct comm *c, int round, float *data)
{
    struct comm_op op[OPS];
    int failures = 0;
    for (int k = 0; k < OPS; k++) {
        op[k] = nth_op(c, k, nth_count(k, round), data + (size_t)k * LONGEST);
        if (comm_start(c, &op[k]) != STATUS_OK)
            failures += report(c, &op[k], status_message());
    }
    for (int n = 0; n < OPS && failures == 0; n++) {
        struct comm_op *o = &op[(n * 5 + comm_rank(c)) % OPS];
        if (comm_wait(c, o) != STATUS_OK)
            failures += report(c, o, status_message());
    }
    return failures;
}

/* Executes run_round on a copy of `data` in device memory. */
static int run_round_on_device(struct comm *c, int round, float *data, size_t bytes)
{
    struct lane l;
    void *mem;
    int failures = 0;
    const struct backend *b = comm_device(c)->backend;
    if (lane_open(c, &l) != STATUS_OK || b->alloc(l.device, bytes, &mem) != STATUS_OK ||
        b->upload(l.stream, mem, data, bytes) != STATUS_OK || b->stream_sync(l.stream) != STATUS_OK)
        return 1;
    failures += run_round(c, round, mem);
    failures += b->download(l.stream, data, mem, bytes) != STATUS_OK;
    failures += b->stream_sync(l.stream) != STATUS_OK;
    b->free(l.device, mem);
    lane_close(&l);
    return failures;
}

static int check_round(struct comm *c, int round, const float *data)
{
    int failures = 0;
    for (int k = 0; k < OPS; k++) {
        const float *got = data + (size_t)k * LONGEST;
        struct comm_op o = nth_op(c, k, nth_count(k, round), NULL);
        int parts = o.kind == COMM_ALLREDUCE ? comm_size(c) : 1;
        for (int64_t i = 0; i < o.count && failures < MOST_REPORTED; i++)
            if (got[i] != (float)(expected(c, &o, i) + parts * (k + round)))
                failures += report(c, &o, "a value is wrong");
    }
    return failures;
}

int exercise_under_way(struct comm *c, int rounds)
{
    int failures = 0;
    size_t bytes = (size_t)OPS * LONGEST * sizeof(float);
    float *data = malloc(bytes);
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < OPS; k++)
            for (int64_t i = 0; i < LONGEST; i++)
                data[(size_t)k * LONGEST + (size_t)i] =
                    (float)(value_of(comm_rank(c), i) + k + round);
        failures +=
            comm_device(c) ? run_round_on_device(c, round, data, bytes) : run_round(c, round, data);
        failures += check_round(c, round, data);
    }
    free(data);
    return failures;
}
