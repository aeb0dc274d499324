/* Compares batch norm over several ranks, each with a part of a batch, with batch norm of the whole
 * batch on one rank. The test executes the ranks one after the other, twice. The first executions
 * only add up their sums. The second executions receive the totals, as if all ranks had waited for
 * each other. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHANNELS = 32, SUMS = 2 * CHANNELS + 1, RANKS_MAX = 3 };

struct devices {
    struct device *ref, *cpu;
};

static int setup(void **state)
{
    struct devices *d = calloc(1, sizeof *d);
    *state = d;
    return d && device_open("ref", 1, &d->ref) == STATUS_OK &&
                   device_open("cpu", 2, &d->cpu) == STATUS_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    struct devices *d = *state;
    if (d) {
        device_close(d->cpu);
        device_close(d->ref);
    }
    free(d);
    return 0;
}

/* ---- ranks, one after the other ---- */

struct exchange {
    double total[SUMS];
    bool collecting;
    int calls;
};

static enum status exchange_sum(void *context, double *values, int64_t n)
{
    struct exchange *e = context;
    assert_int_equal(n, SUMS);
    e->calls++;
    for (int i = 0; i < SUMS; i++) {
        if (e->collecting)
            e->total[i] += values[i];
        else
            values[i] = e->total[i];
    }
    values[SUMS - 1] += e->collecting; /* simulates another rank, which has one value */
    return STATUS_OK;
}

/* ---- a batch in parts ---- */

static bool per_channel(enum role role)
{
    return role == ROLE_GAMMA || role == ROLE_BETA || role == ROLE_MEAN || role == ROLE_INVSTD ||
           role == ROLE_RMEAN || role == ROLE_RVAR || role == ROLE_DGAMMA || role == ROLE_DBETA;
}

/* Copies `rows` images of the operands of `d`, beginning with image `first`. Operands with one
 * value per channel are copied whole. */
static struct operands cut(const struct op_desc *d, const struct operands *whole,
                           const struct op_desc *part, int first)
{
    struct operands o;
    OK(operands_new(part, &o));
    for (int r = 0; r < ROLE_COUNT; r++) {
        size_t bytes = operand_bytes(part, (enum role)r);
        size_t image = per_channel((enum role)r) ? 0 : bytes / (size_t)part->t[ROLE_X].dim[0];
        if (o.p[r] && whole->p[r])
            memcpy(o.p[r], (char *)whole->p[r] + (size_t)first * image, bytes);
    }
    assert_true(first + part->t[ROLE_X].dim[0] <= d->t[ROLE_X].dim[0]);
    return o;
}

/* The tolerance is relative to the largest value of `want`: rounding of the largest values causes
 * most of the error. */
static void assert_all_close(enum role role, const float *got, const float *want, int64_t n,
                             double tolerance)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * largest))
            fail_msg("%s[%d] is %.9g, not %.9g", role_str(role), (int)i, (double)got[i],
                     (double)want[i]);
}

/* Compares the results of one rank with the whole batch. Tensors of images are compared with those
 * in `whole`, beginning with image `first`. Statistics must equal those of the whole batch.
 * Parameter gradients are only added to `sum` here, because the whole gradient is the sum over all
 * ranks. */
static void check_part(const struct op_desc *part, const struct operands *got,
                       const struct operands *whole, int first, double tolerance,
                       double sum[2][CHANNELS])
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        enum role role = (enum role)r;
        int64_t n = operand_count(part, role);
        if (!got->p[r] || !(op_roles(part->kind).writes >> r & 1))
            continue;
        if (role == ROLE_DGAMMA || role == ROLE_DBETA) {
            for (int c = 0; c < CHANNELS; c++)
                sum[role == ROLE_DBETA][c] += (double)operand_f32(got, role)[c];
            continue;
        }
        int64_t image = per_channel(role) ? 0 : n / part->t[ROLE_X].dim[0];
        assert_all_close(role, operand_f32(got, role), operand_f32(whole, role) + first * image, n,
                         tolerance);
    }
}

struct split {
    int ranks;
    int images[RANKS_MAX];
};

struct trial {
    enum op_kind kind;
    int height, width;
    enum layout layout;
    enum fill fill;
    bool relu;
    uint64_t with;
    double tolerance;
};

static struct op_desc trial_desc(const struct trial *t, int images)
{
    return describe_bn(t->kind, images, CHANNELS, t->height, t->width, t->relu, t->with);
}

/* Executes every rank's part twice, each time on new operands. */
static void run_parts(struct device *dev, const struct trial *t, const struct split *s,
                      const struct op_desc *d, const struct operands *in,
                      const struct operands *want)
{
    struct exchange e = {.collecting = true};
    const struct bn_sync sync = {exchange_sum, &e};
    double sum[2][CHANNELS] = {{0}};
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0, first = 0; i < s->ranks; first += s->images[i++]) {
            struct op_desc part = trial_desc(t, s->images[i]);
            struct operands o = cut(d, in, &part, first);
            part.attr.bn.sync = &sync;
            for (int r = 0; r < ROLE_COUNT; r++)
                if (part.t[r].ndim == 4)
                    part.t[r] = in_layout(part.t[r], t->layout);
            OK(run_once(dev, &part, &o));
            if (turn == 1)
                check_part(&part, &o, want, first, t->tolerance, sum);
            operands_free(&o);
        }
        assert_int_equal(e.calls, s->ranks * (turn + 1));
        e.collecting = false;
    }
    static const enum role role[] = {ROLE_DGAMMA, ROLE_DBETA};
    for (int k = 0; k < 2 && t->kind == OP_BN_BWD; k++) {
        float total[CHANNELS];
        for (int c = 0; c < CHANNELS; c++)
            total[c] = (float)sum[k][c];
        assert_all_close(role[k], total, operand_f32(want, role[k]), CHANNELS, t->tolerance);
    }
}

static void check_trial(struct devices *dev, const struct trial *t)
{
    static const struct split splits[] = {{2, {3, 2}}, {2, {1, 4}}, {3, {2, 1, 2}}};
    struct op_desc d = trial_desc(t, 5);
    struct operands in, want;
    OK(operands_new(&d, &in));
    OK(fill_operands(dev->ref, &d, t->fill, 1, &in));
    OK(operands_copy(&d, &in, &want));
    OK(run_once(dev->ref, &d, &want));
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        run_parts(dev->ref, t, &splits[i], &d, &in, &want);
        run_parts(dev->cpu, t, &splits[i], &d, &in, &want);
    }
    operands_free(&in);
    operands_free(&want);
}

static void check_in_layouts(struct devices *dev, struct trial t)
{
    static const enum layout layouts[] = {LAYOUT_PLAIN, LAYOUT_NHWC, LAYOUT_NCHW16C};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        t.layout = layouts[i];
        check_trial(dev, &t);
    }
}

static void forward_is_that_of_the_whole_batch(void **state)
{
    struct trial t = {.kind = OP_BN_FWD_TRAIN, .height = 5, .width = 7, .tolerance = 2e-6};
    check_in_layouts(*state, t);
    t.relu = true;
    t.with = WITH(Z);
    check_in_layouts(*state, t);
    t.height = t.width = 1; /* some ranks have one value per channel */
    check_in_layouts(*state, t);
    /* With such a large mean, fp32 keeps only three digits of the deviations from the mean. */
    t = (struct trial){.kind = OP_BN_FWD_TRAIN,
                       .height = 5,
                       .width = 7,
                       .fill = FILL_LARGE_MEAN,
                       .tolerance = 2e-4};
    check_in_layouts(*state, t);
}

static void backward_is_that_of_the_whole_batch(void **state)
{
    struct trial t = {.kind = OP_BN_BWD, .height = 5, .width = 7, .tolerance = 4e-6};
    check_in_layouts(*state, t);
    t.relu = true;
    t.with = WITH(DY2) | WITH(Y) | WITH(DZ);
    check_in_layouts(*state, t);
}

/* ---- refusals ---- */

static enum status refuse(void *context, double *values, int64_t n)
{
    (void)context;
    (void)values;
    (void)n;
    return status_fail(STATUS_LIBRARY, "rank 1 is gone");
}

static enum status leave(void *context, double *values, int64_t n)
{
    (void)context;
    (void)values;
    (void)n;
    return STATUS_OK;
}

static enum status run_small(struct device *dev, enum op_kind kind, const struct bn_sync *sync)
{
    struct op_desc d = describe_bn(kind, 1, CHANNELS, 1, 1, false, 0);
    struct operands o;
    d.attr.bn.sync = sync;
    OK(operands_new(&d, &o));
    enum status st = run_once(dev, &d, &o);
    operands_free(&o);
    return st;
}

static void a_failed_sum_fails_the_operation(void **state)
{
    const struct devices *dev = *state;
    const struct bn_sync sync = {refuse, NULL};
    struct device *const both[] = {dev->ref, dev->cpu};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_small(both[i], OP_BN_FWD_TRAIN, &sync), STATUS_LIBRARY);
        assert_string_equal(status_message(), "rank 1 is gone");
        assert_int_equal(run_small(both[i], OP_BN_BWD, &sync), STATUS_LIBRARY);
        OK(run_small(both[i], OP_BN_FWD_EVAL, &sync)); /* evaluation sums nothing over ranks */
    }
}

static void one_value_in_all_is_refused(void **state)
{
    const struct devices *dev = *state;
    const struct bn_sync alone = {leave, NULL}, nothing = {NULL, NULL};
    struct device *const both[] = {dev->ref, dev->cpu};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_small(both[i], OP_BN_FWD_TRAIN, &alone), STATUS_INVALID);
        assert_int_equal(run_small(both[i], OP_BN_FWD_TRAIN, NULL), STATUS_INVALID);
        assert_int_equal(run_small(both[i], OP_BN_FWD_TRAIN, &nothing), STATUS_INVALID);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_that_of_the_whole_batch),
        cmocka_unit_test(backward_is_that_of_the_whole_batch),
        cmocka_unit_test(a_failed_sum_fails_the_operation),
        cmocka_unit_test(one_value_in_all_is_refused),
    };
    return cmocka_run_group_tests_name("bn_sync", tests, setup, teardown);
}
