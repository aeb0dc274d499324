/* Tests the shapes of matrix products of a network, the passes of each
 * product, and the detection of a wrong product. */
#include "bench/gemm.h"
#include "broken.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct harness_config quick = {.warmup = 1, .most = 3};

static bool same_size(const struct gemm_size *a, const struct gemm_size *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_t == b->a_t && a->b_t == b->b_t;
}

/* ResNet-50 has 53 convolutions and a linear layer. Together they need 4089184256 multiply-adds per
 * image. */
static void test_resnet50(void **state)
{
    (void)state;
    enum { BATCH = 2 };
    struct graph *g;
    struct gemm_list list;
    int count[3] = {0};
    double flops[3] = {0};
    assert_int_equal(graph_build("resnet50", 1000, 224, &g), STATUS_OK);
    assert_int_equal(gemm_list_net(g, BATCH, &list), STATUS_OK);
    for (int i = 0; i < list.n; i++) {
        const struct gemm_case *c = &list.item[i];
        int pass = strcmp(c->pass, "fwd") == 0 ? 0 : strcmp(c->pass, "bwd_data") == 0 ? 1 : 2;
        count[pass] += c->count;
        flops[pass] += c->count * gemm_flops(&c->size);
    }
    assert_true(count[0] == 54 && count[1] == 53 && count[2] == 54);
    assert_true(flops[0] == BATCH * 2 * 4089184256.0);
    assert_true(flops[0] == BATCH * graph_flops_forward(g));
    assert_true(flops[2] == flops[0]);
    /* the first convolution computes no gradient of the image */
    assert_true(flops[0] - flops[1] == 2.0 * BATCH * 112 * 112 * 64 * 147);

    const struct gemm_case *first = &list.item[0];
    assert_string_equal(first->layer, "conv1");
    assert_int_equal(first->count, 1);
    const struct gemm_size conv1 = {64, BATCH * 112 * 112, 147, true, false};
    assert_true(same_size(&first->size, &conv1));
    const struct gemm_case *last = &list.item[list.n - 1];
    const struct gemm_size fc = {2048, 1000, BATCH, false, true};
    assert_string_equal(last->layer, "fc");
    assert_string_equal(last->pass, "bwd_weights");
    assert_true(same_size(&last->size, &fc));
    gemm_list_free(&list);
    graph_free(g);
}

/* A grouped convolution has one matrix product per group. */
static void test_groups(void **state)
{
    (void)state;
    struct graph *g;
    struct gemm_list list;
    double flops = 0;
    assert_int_equal(graph_build("resnext50_32x4d", 1000, 64, &g), STATUS_OK);
    assert_int_equal(gemm_list_net(g, 1, &list), STATUS_OK);
    for (int i = 0; i < list.n; i++)
        if (strcmp(list.item[i].pass, "fwd") == 0)
            flops += list.item[i].count * gemm_flops(&list.item[i].size);
    assert_true(flops == graph_flops_forward(g));
    gemm_list_free(&list);
    graph_free(g);
}

static void test_descriptions(void **state)
{
    (void)state;
    struct op_desc d;
    struct gemm_size s = {2, 3, 5, true, false};
    assert_int_equal(gemm_describe(&s, DTYPE_F32, false, &d), STATUS_OK);
    assert_int_equal(d.kind, OP_LINEAR_FWD);
    assert_true(d.t[ROLE_W].dim[0] == 2 && d.t[ROLE_W].dim[1] == 5);
    assert_true(d.t[ROLE_X].dim[0] == 3 && d.t[ROLE_Y].dim[0] == 3 && d.t[ROLE_Y].dim[1] == 2);
    assert_true(op_flops(&d) == gemm_flops(&s) && gemm_flops(&s) == 60);

    s = (struct gemm_size){2, 3, 5, false, true};
    assert_int_equal(gemm_describe(&s, DTYPE_F16, false, &d), STATUS_OK);
    assert_int_equal(d.kind, OP_LINEAR_BWD_WEIGHTS);
    assert_true(d.t[ROLE_X].dim[0] == 5 && d.t[ROLE_X].dim[1] == 2);
    assert_true(d.t[ROLE_DW].dim[0] == 3 && d.t[ROLE_DW].dim[1] == 2);
    assert_true(d.t[ROLE_X].type == DTYPE_F16 && d.t[ROLE_X].bytes == 20);
    assert_true(d.t[ROLE_DW].type == DTYPE_F32 && d.t[ROLE_DW].layout == LAYOUT_ANY);
    assert_true(op_flops(&d) == 60);

    s = (struct gemm_size){2, 3, 5, false, false};
    assert_int_equal(gemm_describe(&s, DTYPE_BF16, true, &d), STATUS_OK);
    assert_int_equal(d.kind, OP_LINEAR_BWD_DATA);
    assert_true(d.t[ROLE_DX].type == DTYPE_F32 && d.t[ROLE_DX].rounds == DTYPE_BF16);
    assert_true(op_flops(&d) == 60);

    s = (struct gemm_size){2, 3, 5, true, true};
    assert_int_equal(gemm_describe(&s, DTYPE_F32, false, &d), STATUS_UNSUPPORTED);
}

/* --- on devices --- */

struct rig {
    struct device *dev, *ref;
    struct stream *s, *r;
};

static void rig_open(struct rig *rig, struct device *dev)
{
    rig->dev = dev;
    assert_int_equal(device_open("ref", 1, &rig->ref), STATUS_OK);
    assert_int_equal(dev->backend->stream_open(rig->dev, &rig->s), STATUS_OK);
    assert_int_equal(rig->ref->backend->stream_open(rig->ref, &rig->r), STATUS_OK);
}

static void rig_close(struct rig *rig)
{
    rig->dev->backend->stream_close(rig->s);
    rig->ref->backend->stream_close(rig->r);
    device_close(rig->dev);
    device_close(rig->ref);
}

static struct gemm_case case_of(int m, int n, int k, bool a_t, bool b_t)
{
    return (struct gemm_case){.size = {m, n, k, a_t, b_t}, .pass = "", .count = 1};
}

static void test_right(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_TF32, DTYPE_F16, DTYPE_BF16};
    static const char *const names[] = {"cpu", "ref"};
    for (int name = 0; name < 2; name++) {
        struct device *dev;
        struct rig rig;
        struct gemm_row row;
        assert_int_equal(device_open(names[name], 1, &dev), STATUS_OK);
        rig_open(&rig, dev);
        for (int op = 0; op < 3; op++) {
            for (int t = 0; t < 4; t++) {
                struct gemm_case c = case_of(19, 33, 257, op == 1, op == 2);
                assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &c, types[t], &row), STATUS_OK);
                assert_true(row.measured && row.checked == 19 * 33 && row.wrong == 0);
                assert_true(row.time.n == 3 && row.flops_per_s > 0);
                assert_int_equal(row.emulated, !device_native(rig.dev, types[t]));
            }
        }
        struct gemm_case both = case_of(4, 4, 4, true, true);
        assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &both, DTYPE_F32, &row), STATUS_OK);
        assert_true(!row.measured && row.wrong == 0);
        rig_close(&rig);
    }
}

/* If a product is large, only a sample of its elements is checked. The last element is always in
 * the sample. */
static void test_wrong(void **state)
{
    (void)state;
    struct broken broken;
    struct rig rig;
    struct gemm_row row;
    rig_open(&rig, broken_open(&broken, OP_LINEAR_FWD, ROLE_Y));
    struct gemm_case c = case_of(300, 200, 2000, true, false);
    assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &c, DTYPE_F32, &row), STATUS_OK);
    assert_int_equal(row.wrong, 1);
    assert_true(row.checked < 300 * 200 && row.checked > 8000);
    c = case_of(300, 200, 2000, false, false);
    assert_int_equal(gemm_measure(&quick, rig.s, rig.r, &c, DTYPE_F32, &row), STATUS_OK);
    assert_int_equal(row.wrong, 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet50),     cmocka_unit_test(test_groups),
        cmocka_unit_test(test_descriptions), cmocka_unit_test(test_right),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
