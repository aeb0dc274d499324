/* Compares batch norm over several ranks, each with a part of a batch, with batch norm of the whole
 * batch on one rank. The test executes the ranks one after the other, twice. The first executions
 * only add up their sums. The second executions receive the totals, as if all ranks had waited for
 * each other. */
#include "tests/kernels/group.h"
#include "verify/describe.h"
#include "verify/fill.h"

enum { CHANNELS = 32, SUMS = 2 * CHANNELS + 1, IMAGES = 5, RANKS_MAX = 3 };

static struct device *ref, *cpu;

static int setup(void **state)
{
    expect_ok(device_open("ref", 1, &ref));
    expect_ok(device_open("cpu", 2, &cpu));
    return 0;
}

static int teardown(void **state)
{
    device_close(cpu);
    device_close(ref);
    return 0;
}

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

/* Number of elements of an operand from image 0 to image `images`; 0 for operands with one value
 * per channel. */
static int64_t elements_before(const struct op_desc *d, enum role role, int images)
{
    return d->t[role].ndim == 4 ? tensor_count(&d->t[role]) / d->t[role].dim[0] * images : 0;
}

/* Copies the images of a rank, beginning with image `first`. */
static struct operands cut(const struct op_desc *part, const struct operands *whole, int first)
{
    struct operands o;
    expect_ok(operands_new(part, &o));
    for (int r = 0; r < ROLE_COUNT; r++)
        if (o.p[r] && whole->p[r])
            memcpy(o.p[r],
                   operand_f32(whole, (enum role)r) + elements_before(part, (enum role)r, first),
                   operand_bytes(part, (enum role)r));
    return o;
}

struct trial {
    enum op_kind kind;
    int height, width;
    bool relu;
    uint64_t with;
    enum fill fill;
    double tolerance;
};

static struct op_desc trial_desc(const struct trial *t, int images)
{
    return describe_bn(t->kind, images, CHANNELS, t->height, t->width, t->relu, t->with);
}

/* Compares the results of one rank with the whole batch. Parameter gradients are only added to
 * `sum` here, because the whole gradient is the sum over all ranks. */
static void check_part(const struct trial *t, const struct op_desc *part,
                       const struct operands *got, const struct operands *whole, int first,
                       float sum[ROLE_COUNT][CHANNELS])
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        enum role role = (enum role)r;
        const float *mine = operand_f32(got, role), *all = operand_f32(whole, role);
        if (!mine || !(op_roles(part->kind).writes >> r & 1))
            continue;
        if (role != ROLE_DGAMMA && role != ROLE_DBETA)
            assert_close(role_str(role), mine, all + elements_before(part, role, first),
                         operand_count(part, role), t->tolerance);
        for (int c = 0; c < CHANNELS; c++)
            sum[r][c] += mine[c];
    }
}

/* Executes every rank's part twice, each time on new operands. */
static void run_parts(struct device *dev, const struct trial *t, enum layout layout,
                      const int images[RANKS_MAX], const struct operands *in,
                      const struct operands *want)
{
    struct exchange e = {.collecting = true};
    const struct bn_sync sync = {exchange_sum, &e};
    float sum[ROLE_COUNT][CHANNELS] = {{0}};
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0, first = 0; first < IMAGES; first += images[i++]) {
            struct op_desc part = trial_desc(t, images[i]);
            struct operands o = cut(&part, in, first);
            part.attr.bn.sync = &sync;
            for (int r = 0; r < ROLE_COUNT; r++)
                if (part.t[r].ndim == 4)
                    part.t[r] = in_layout(part.t[r], layout);
            expect_ok(run_once(dev, &part, &o));
            if (turn == 1)
                check_part(t, &part, &o, want, first, sum);
            operands_free(&o);
        }
        e.collecting = false;
    }
    assert_int_equal(e.calls, 2 * (images[2] ? 3 : 2));
    if (t->kind == OP_BN_BWD) {
        assert_close("DGAMMA", sum[ROLE_DGAMMA], operand_f32(want, ROLE_DGAMMA), CHANNELS,
                     t->tolerance);
        assert_close("DBETA", sum[ROLE_DBETA], operand_f32(want, ROLE_DBETA), CHANNELS,
                     t->tolerance);
    }
}

static void ranks_compute_what_one_rank_does(void **state)
{
    /* In the third trial, some ranks have one value per channel. With the large mean of the fourth,
     * fp32 keeps only three digits of the deviations from the mean. */
    static const struct trial trials[] = {
        {OP_BN_FWD_TRAIN, 5, 7, false, 0, FILL_RANDOM, 2e-6},
        {OP_BN_FWD_TRAIN, 5, 7, true, WITH(Z), FILL_RANDOM, 2e-6},
        {OP_BN_FWD_TRAIN, 1, 1, true, WITH(Z), FILL_RANDOM, 2e-6},
        {OP_BN_FWD_TRAIN, 5, 7, false, 0, FILL_LARGE_MEAN, 2e-4},
        {OP_BN_BWD, 5, 7, false, 0, FILL_RANDOM, 4e-6},
        {OP_BN_BWD, 5, 7, true, WITH(DY2) | WITH(Y) | WITH(DZ), FILL_RANDOM, 4e-6},
    };
    static const enum layout layouts[] = {LAYOUT_PLAIN, LAYOUT_NHWC, LAYOUT_NCHW16C};
    static const int splits[][RANKS_MAX] = {{3, 2}, {1, 4}, {2, 1, 2}};
    for (int i = 0; i < COUNT(trials); i++) {
        const struct trial *t = &trials[i];
        struct op_desc d = trial_desc(t, IMAGES);
        struct operands in, want;
        expect_ok(operands_new(&d, &in));
        expect_ok(fill_operands(ref, &d, t->fill, 1, &in));
        expect_ok(operands_copy(&d, &in, &want));
        expect_ok(run_once(ref, &d, &want));
        for (int k = 0; k < 9; k++) {
            run_parts(ref, t, layouts[k / 3], splits[k % 3], &in, &want);
            run_parts(cpu, t, layouts[k / 3], splits[k % 3], &in, &want);
        }
        operands_free(&in);
        operands_free(&want);
    }
}

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

/* The batch has one value per channel. */
static void failed_sums_and_single_values(void **state)
{
    static const struct bn_sync gone = {refuse, NULL}, alone = {leave, NULL},
                                nothing = {NULL, NULL};
    static const struct {
        enum op_kind kind;
        const struct bn_sync *sync;
        enum status want;
    } table[] = {
        {OP_BN_FWD_TRAIN, &gone, STATUS_LIBRARY},  {OP_BN_BWD, &gone, STATUS_LIBRARY},
        {OP_BN_FWD_EVAL, &gone, STATUS_OK}, /* evaluation sums nothing over ranks */
        {OP_BN_FWD_TRAIN, &alone, STATUS_INVALID}, {OP_BN_FWD_TRAIN, &nothing, STATUS_INVALID},
        {OP_BN_FWD_TRAIN, NULL, STATUS_INVALID},
    };
    for (int i = 0; i < COUNT(table); i++)
        for (int k = 0; k < 2; k++) {
            struct op_desc d = describe_bn(table[i].kind, 1, CHANNELS, 1, 1, false, 0);
            struct operands o;
            d.attr.bn.sync = table[i].sync;
            expect_ok(operands_new(&d, &o));
            assert_int_equal(run_once(k ? cpu : ref, &d, &o), table[i].want);
            if (table[i].want == STATUS_LIBRARY)
                assert_string_equal(status_message(), "rank 1 is gone");
            operands_free(&o);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_what_one_rank_does),
        cmocka_unit_test(failed_sums_and_single_values),
    };
    return cmocka_run_group_tests_name("bn_sync", tests, setup, teardown);
}
