#include "exercise.h"

#include "base/rng.h"
#include "kernels/backend.h"
#include "values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype types[] = {DTYPE_F32,  DTYPE_F64, DTYPE_F16,
                                   DTYPE_BF16, DTYPE_I32, DTYPE_U8};
enum { TYPES = sizeof types / sizeof *types, FLOATS = 4, UNTOUCHED = 0x5a, MOST_REPORTED = 5 };

static int report(const struct comm *c, const struct comm_op *op, const char *what)
{
    printf("FAILED: rank %d of %d (%s): %s of %" PRId64 " %s, reduction %d, root %d: %s\n",
           comm_rank(c), comm_size(c), comm_name(c), comm_kind_str(op->kind), op->count,
           dtype_str(op->type), (int)op->reduction, op->root, what);
    return 1;
}

/* --- values --- */

/* Element i of the data that this rank sends. Values are small: sums over 16 ranks are exact in
 * every type. */
static int value_of(int rank, int64_t i)
{
    return (int)((rank * 7 + i * 13) % 13) - (rank % 2 ? 6 : 2);
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
    case COMM_GATHER:
        return value_of((int)(i / op->count), i % op->count);
    case COMM_REDUCE_SCATTER:
        return reduced(c, op->reduction, rank * op->count + i);
    case COMM_ALLTOALL:
        return value_of((int)(i / op->count), rank * op->count + i % op->count);
    case COMM_SCATTER:
        return value_of(op->root, rank * op->count + i);
    case COMM_SENDRECV:
        return value_of((rank + size - 1) % size, i);
    default:
        return reduced(c, op->reduction, i);
    }
}

static void fill(const struct comm *c, enum dtype type, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        element_put(type, data, i, value_of(comm_rank(c), i));
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
    op->after = l->ready, op->began = l->began, op->over = l->over;
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

/* Executes `op`, whose buffers are in host memory, on copies in device memory if the communicator
 * requires that. Returns the number of failures. */
static int run_anywhere(struct comm *c, struct comm_op *op, size_t bytes)
{
    struct lane l;
    enum status st = comm_device(c) ? lane_open(c, &l) : comm_run(c, op);
    if (comm_device(c) && st == STATUS_OK)
        st = run_on_lane(c, &l, op, bytes);
    if (comm_device(c))
        lane_close(&l);
    return st == STATUS_OK ? 0 : report(c, op, status_message());
}

/* --- operations of every kind --- */

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
        memset(want, UNTOUCHED, sizeof want);
        if (written || op->send == op->recv)
            element_put(op->type, want, 0,
                        written ? expected(c, op, i) : value_of(comm_rank(c), i));
        if (memcmp(want, recv + (size_t)i * element, element) != 0)
            return report(c, op, "an element is wrong");
    }
    if (recv[(size_t)received * element] != UNTOUCHED)
        return report(c, op, "wrote behind the end");
    return 0;
}

/* Fills the send and receive buffers of `op`, executes `op` and checks the result. */
static int run_one(struct comm *c, struct comm_op op, bool in_place)
{
    int64_t most = op.count * comm_size(c), received = op.count;
    size_t bytes = (size_t)(most + 1) * dtype_size(op.type);
    char *send = malloc(bytes), *recv = malloc(bytes);
    if (op.kind == COMM_ALLGATHER || op.kind == COMM_ALLTOALL || op.kind == COMM_GATHER)
        received = most;
    memset(recv, UNTOUCHED, bytes);
    fill(c, op.type, send, most);
    op.send = send;
    op.recv = recv;
    if (op.kind == COMM_BROADCAST && comm_rank(c) == op.root)
        fill(c, op.type, recv, op.count);
    if (in_place) {
        size_t at = op.kind == COMM_ALLGATHER ? (size_t)comm_rank(c) * (size_t)op.count : 0;
        op.send =
            memcpy(recv + at * dtype_size(op.type), send, (size_t)op.count * dtype_size(op.type));
    }
    int failures = run_anywhere(c, &op, bytes);
    if (failures == 0 && !comm_device(c) && (op.begun_ns <= 0 || op.ended_ns < op.begun_ns))
        failures = report(c, &op, "ended before it began");
    if (failures == 0)
        failures = check(c, &op, received);
    free(send);
    free(recv);
    return failures;
}

static int both_places(struct comm *c, struct comm_op op)
{
    bool may_be_in_place =
        op.kind == COMM_ALLREDUCE || op.kind == COMM_REDUCE || op.kind == COMM_ALLGATHER;
    int failures = run_one(c, op, false);
    return may_be_in_place ? failures + run_one(c, op, true) : failures;
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
    /* Some give one piece of data (PIECE_BYTES in comm/mpi.c and comm/staged.c), some give several,
     * the last of which may be shorter. */
    static const int64_t counts[] = {0, 1, 7, 16384, 16385, 65536, 262144 + 3, 1310720, 1700001};
    enum { COUNTS = sizeof counts / sizeof *counts, ANY = 3001 };
    int failures = 0, size = comm_size(c);
    for (int k = 0; k < COMM_BARRIER; k++) {
        if (k == COMM_REDUCE_SCATTER && strcmp(comm_name(c), "gloo") == 0)
            continue; /* refused */
        struct comm_op op = {.kind = (enum comm_kind)k, .root = k % size, .count = ANY};
        failures += every_type(c, op);
        for (int i = 0; i < COUNTS && (i < 3 || counts[i] <= largest); i++) {
            op.count = counts[i];
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

/* --- sums --- */

/* Sums random bits over all ranks. About one fp32 value in 256, and one fp16 value in 32, is a NaN
 * or an infinity. */
static int sum_bits(struct comm *c, struct comm_op op, uint8_t *data, size_t bytes)
{
    struct rng r = rng_at((uint64_t)op.count, RNG_TEST, (uint64_t)comm_rank(c), 0);
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t bits = rng_u32(&r);
        memcpy(data + i, &bits, bytes - i < 4 ? bytes - i : 4);
    }
    op.send = op.recv = data;
    return run_anywhere(c, &op, bytes);
}

static int compare_bits(struct comm *c, enum dtype type, int64_t count, uint8_t *data,
                        uint8_t *again)
{
    size_t bytes = (size_t)count * dtype_size(type);
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM, type, .count = count};
    struct comm_op first = {.kind = COMM_BROADCAST, .type = type, .recv = again, .count = count};
    int failures = sum_bits(c, op, data, bytes) + sum_bits(c, op, again, bytes);
    if (failures == 0 && memcmp(data, again, bytes) != 0)
        failures = report(c, &op, "the repeated sum has other bits");
    failures += run_anywhere(c, &first, bytes);
    if (failures == 0 && memcmp(data, again, bytes) != 0)
        failures = report(c, &op, "rank 0 has other bits");
    return failures;
}

int exercise_same_bits(struct comm *c, int64_t max_bytes)
{
    int failures = 0;
    uint8_t *data = malloc((size_t)max_bytes), *again = malloc((size_t)max_bytes);
    for (int64_t bytes = 8; bytes <= max_bytes; bytes *= 8)
        for (int t = 0; t < FLOATS; t++) /* an odd number of bf16 values */
            failures += compare_bits(
                c, types[t], bytes / (int64_t)dtype_size(types[t]) - (types[t] == DTYPE_BF16), data,
                again);
    free(data);
    free(again);
    return failures;
}

int exercise_factor(struct comm *c)
{
    enum { COUNT = 3001, VALUE = 49152 }; /* VALUE + VALUE overflows fp16 */
    double data[COUNT];
    int failures = 0;
    for (int t = 0; t < FLOATS && comm_device(c); t++) {
        struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,       types[t],      .send = data,
                             .recv = data,   .count = COUNT, .factor = 0.5f};
        double want[1];
        for (int64_t i = 0; i < COUNT; i++)
            element_put(types[t], data, i, VALUE);
        element_put(types[t], want, 0, VALUE / 2 * comm_size(c));
        failures += run_anywhere(c, &op, COUNT * dtype_size(types[t]));
        for (int64_t i = 0; i < COUNT && failures < MOST_REPORTED; i++)
            if (element_get(types[t], data, i) != element_get(types[t], want, 0))
                failures += report(c, &op, "a scaled sum is wrong");
    }
    return failures;
}

/* --- many operations at a time --- */

enum { OPS = 24, LONGEST = 60000 };

/* Returns operation number k of a round. Its buffer begins at `data`. */
static struct comm_op nth_op(const struct comm *c, int k, int round, float *data)
{
    struct comm_op op = {k % 5 == 4 ? COMM_BROADCAST : COMM_ALLREDUCE, COMM_SUM, DTYPE_F32};
    op.send = op.recv = data + (size_t)k * LONGEST;
    op.root = k % comm_size(c);
    op.count = (k * 7919 + round * 104729) % LONGEST + 1;
    return op;
}

/* Starts all operations of a round, then waits for them. Each rank waits in a different order. */
static int run_round(struct comm *c, int round, float *data)
{
    struct comm_op op[OPS];
    int failures = 0;
    for (int k = 0; k < OPS; k++) {
        op[k] = nth_op(c, k, round, data);
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
    const struct backend *b = comm_device(c)->backend;
    if (lane_open(c, &l) != STATUS_OK || b->alloc(l.device, bytes, &mem) != STATUS_OK ||
        b->upload(l.stream, mem, data, bytes) != STATUS_OK || b->stream_sync(l.stream) != STATUS_OK)
        return 1;
    int failures = run_round(c, round, mem);
    failures += b->download(l.stream, data, mem, bytes) != STATUS_OK ||
                b->stream_sync(l.stream) != STATUS_OK;
    b->free(l.device, mem);
    lane_close(&l);
    return failures;
}

static int check_round(struct comm *c, int round, float *data)
{
    int failures = 0;
    for (int k = 0; k < OPS; k++) {
        struct comm_op o = nth_op(c, k, round, data);
        const float *got = o.recv;
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
        for (int i = 0; i < OPS * LONGEST; i++)
            data[i] = (float)(value_of(comm_rank(c), i % LONGEST) + i / LONGEST + round);
        failures +=
            comm_device(c) ? run_round_on_device(c, round, data, bytes) : run_round(c, round, data);
        failures += check_round(c, round, data);
    }
    free(data);
    return failures;
}
