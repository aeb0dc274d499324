#include "exercise.h"

#include "base/half.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype types[] = {DTYPE_F32,  DTYPE_F64, DTYPE_F16,
                                   DTYPE_BF16, DTYPE_I32, DTYPE_U8};
enum { TYPES = sizeof types / sizeof *types, UNTOUCHED = 0x5a, MOST_REPORTED = 5 };

/* --- values --- */

/* Element i of rank's data: sums over 16 ranks are exact in every type. */
static int value_of(int rank, int64_t i)
{
    return (int)((rank * 7 + i * 13) % 13) - (rank % 2 ? 6 : 2);
}

static void put(enum dtype type, void *data, int64_t i, int value)
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
        ((int32_t *)data)[i] = value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    }
}

static int reduced(const struct comm *c, enum comm_reduction reduction, int64_t i)
{
    int result = value_of(0, i);
    for (int r = 1; r < comm_size(c); r++) {
        int v = value_of(r, i);
        if (reduction == COMM_SUM)
            result += v;
        else if (reduction == COMM_MAX ? v > result : v < result)
            result = v;
    }
    return result;
}

/* Element i of what `op` leaves in recv. */
static int expected(const struct comm *c, const struct comm_op *op, int64_t i)
{
    switch (op->kind) {
    case COMM_BROADCAST:
        return value_of(op->root, i);
    case COMM_ALLGATHER:
        return value_of((int)(i / op->count), i % op->count);
    case COMM_REDUCE_SCATTER:
        return reduced(c, op->reduction, comm_rank(c) * op->count + i);
    default:
        return reduced(c, op->reduction, i);
    }
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

/* Compares recv, and looks that the byte behind it, and all of it where it is not to be written,
 * are as they were. */
static int check(const struct comm *c, const struct comm_op *op, int64_t received)
{
    size_t element = dtype_size(op->type);
    const char *recv = op->recv;
    bool written = op->kind != COMM_REDUCE || comm_rank(c) == op->root;
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

/* Fills send and recv of `op`, runs it and checks it. */
static int run_one(struct comm *c, struct comm_op op, bool in_place)
{
    int64_t size = comm_size(c), most = op.count * size, sent = op.count, received = op.count;
    size_t bytes = (size_t)(most + 1) * dtype_size(op.type);
    char *send = malloc(bytes), *recv = malloc(bytes);
    if (op.kind == COMM_REDUCE_SCATTER)
        sent = most;
    if (op.kind == COMM_ALLGATHER)
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
    if (comm_run(c, &op) != STATUS_OK)
        failures = report(c, &op, status_message());
    else if (op.begun_ns <= 0 || op.ended_ns < op.begun_ns)
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
    bool moves = op.kind == COMM_BROADCAST || op.kind == COMM_ALLGATHER;
    int failures = 0;
    for (int t = 0; t < TYPES; t++)
        for (int r = COMM_SUM; r <= (moves ? COMM_SUM : COMM_MIN); r++) {
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
    /* At and above what one call of a library moves for 1 to 4 ranks, and one or several segments
     * of a flow, with and without a rest. */
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

/* Any bits: one value in 256 of fp32 and one in 32 of fp16 is a NaN or an infinity. */
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

/* The hash of one sum of `count`. */
static int sum_bits(struct comm *c, enum dtype type, int64_t count, uint8_t *data, uint64_t *hash)
{
    size_t bytes = (size_t)count * dtype_size(type);
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM,     type,
                         .send = data,   .recv = data, .count = count};
    fill_bits(c, data, (int64_t)bytes, count);
    if (comm_run(c, &op) != STATUS_OK)
        return report(c, &op, status_message());
    *hash = hash_of(data, bytes);
    return 0;
}

static int compare_bits(struct comm *c, enum dtype type, int64_t count, uint8_t *data,
                        uint64_t *all)
{
    uint64_t first = 0, again = 0;
    struct comm_op op = {COMM_ALLREDUCE, COMM_SUM, type, .count = count};
    struct comm_op gather = {COMM_ALLGATHER, COMM_SUM,    DTYPE_U8,
                             .send = &first, .recv = all, .count = sizeof first};
    if (sum_bits(c, type, count, data, &first) || sum_bits(c, type, count, data, &again))
        return 1;
    if (comm_run(c, &gather) != STATUS_OK)
        return report(c, &gather, status_message());
    for (int r = 0; r < comm_size(c); r++)
        if (all[r] != first)
            return report(c, &op, "not the same bits on every rank");
    return first == again ? 0 : report(c, &op, "not the same bits again");
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

int exercise_under_way(struct comm *c, int rounds)
{
    enum { OPS = 24, LONGEST = 60000 };
    int failures = 0;
    float *data = malloc((size_t)OPS * LONGEST * sizeof *data);
    for (int round = 0; round < rounds; round++) {
        struct comm_op op[OPS];
        for (int k = 0; k < OPS; k++) {
            float *own = data + (size_t)k * LONGEST;
            int64_t count = (k * 7919 + round * 104729) % LONGEST + 1;
            for (int64_t i = 0; i < count; i++)
                own[i] = (float)(value_of(comm_rank(c), i) + k + round);
            op[k] = (struct comm_op){k % 5 == 4 ? COMM_BROADCAST : COMM_ALLREDUCE,
                                     COMM_SUM,
                                     DTYPE_F32,
                                     .root = k % comm_size(c),
                                     .send = own,
                                     .recv = own,
                                     .count = count};
            if (comm_start(c, &op[k]) != STATUS_OK)
                failures += report(c, &op[k], status_message());
        }
        for (int n = 0; n < OPS && failures == 0; n++) {
            struct comm_op *o = &op[(n * 5 + comm_rank(c)) % OPS]; /* each rank its own order */
            int k = (int)(o - op), parts = o->kind == COMM_ALLREDUCE ? comm_size(c) : 1;
            if (comm_wait(c, o) != STATUS_OK)
                failures += report(c, o, status_message());
            for (int64_t i = 0; i < o->count && failures < MOST_REPORTED; i++)
                if (((float *)o->recv)[i] != (float)(expected(c, o, i) + parts * (k + round)))
                    failures += report(c, o, "a value is wrong");
        }
    }
    free(data);
    return failures;
}
