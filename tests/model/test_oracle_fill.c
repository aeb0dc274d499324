/* Compares generated weights, images and labels bit by bit with numpy's: a few values, and the
 * FNV-1a hash of all bytes. */
#include "model/oracle_fill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t bytes_hash(const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static void test_params(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float first[3], last;
        uint64_t hash;
    } cases[] = {
        {"conv1.weight",
         {0x1.5c22ccp-5f, -0x1.9a7d46p-2f, 0x1.bc1e76p-2f},
         0x1.2231bp-2f,
         0xbe3ab6b9c581f2de},
        {"layer2.0.downsample.0.weight",
         {0x1.1cf622p-1f, 0x1.10d38cp-2f, 0x1.755fbap-2f},
         0x1.97f4d4p-4f,
         0xc926932e4541139b},
        {"fc.weight",
         {-0x1.3419ep-7f, 0x1.61ccccp-3f, -0x1.d0d8acp-3f},
         0x1.cde6acp-9f,
         0x0820cf8a7b92e1e0},
        {"fc.bias",
         {-0x1.24edcep-8f, -0x1.c1dea6p-5f, -0x1.416666p-16f},
         -0x1.8552dap-4f,
         0x1789a6905591641b},
        {"bn1.weight",
         {0x1.f1af54p-1f, 0x1.fbeec4p-1f, 0x1.e99fecp-1f},
         0x1.f9b234p-1f,
         0x4948afc1dcb81c3b},
        {"layer3.0.bn2.bias",
         {-0x1.7848cep-8f, -0x1.46f634p-7f, -0x1.4ed834p-6f},
         -0x1.3e49b4p-5f,
         0x85c39a52e64202b0},
    };
    struct graph *g;
    assert_int_equal(graph_build("resnet8", 10, 32, &g), STATUS_OK);
    float v[640];
    size_t seen = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < g->n_params; k++) {
            const struct param *p = &g->param[k];
            if (strcmp(p->name, cases[i].name) != 0)
                continue;
            size_t n = (size_t)param_count(p);
            assert_in_range(n, 1, sizeof v / sizeof *v);
            oracle_fill_param(p, v);
            assert_memory_equal(v, cases[i].first, sizeof cases[i].first);
            assert_memory_equal(&v[n - 1], &cases[i].last, sizeof v[0]);
            assert_int_equal(bytes_hash(v, n * sizeof *v), cases[i].hash);
            seen++;
        }
    assert_int_equal(seen, sizeof cases / sizeof *cases);
    graph_free(g);
}

static void test_running_statistics_start_fresh(void **state)
{
    (void)state;
    struct param mean = {.name = "bn1.running_mean", .kind = PARAM_BN_MEAN, .ndim = 1, .dim = {3}};
    struct param var = {.name = "bn1.running_var", .kind = PARAM_BN_VAR, .ndim = 1, .dim = {3}};
    float v[3];
    oracle_fill_param(&mean, v);
    assert_true(v[0] == 0 && v[1] == 0 && v[2] == 0);
    oracle_fill_param(&var, v);
    assert_true(v[0] == 1 && v[1] == 1 && v[2] == 1);
}

static void test_images(void **state)
{
    (void)state;
    float v[6 * 3 * 5 * 5];
    static const float first[3] = {-0x1.d534ecp-1f, 0x1.b48674p-1f, 0x1.16e834p-1f};
    oracle_fill_images(0, 2, 5, v);
    assert_memory_equal(v, first, sizeof first);
    assert_true(v[149] == -0x1.5b44bp-3f);
    assert_int_equal(bytes_hash(v, 150 * sizeof *v), 0xd71981d15ce4f1d9);
    oracle_fill_images(12, 6, 5, v);
    assert_int_equal(bytes_hash(v, sizeof v), 0x02ffdac3f0a252d1);
}

static void test_pixels(void **state)
{
    (void)state;
    uint8_t v[3 * 16 * 16];
    static const uint8_t first[4] = {4, 202, 79, 197};
    oracle_fill_pixels(0, 2, 8, v);
    assert_memory_equal(v, first, sizeof first);
    assert_int_equal(bytes_hash(v, 384), 0x641bf967aeaf53c2);
    oracle_fill_pixels(3, 1, 16, v);
    assert_int_equal(bytes_hash(v, sizeof v), 0x4a715fcc95222d8e);
}

static void test_labels(void **state)
{
    (void)state;
    int32_t label[6];
    static const int32_t step0[2] = {3, 9}, step12[6] = {968, 497, 903, 864, 623, 686};
    oracle_fill_labels(0, 2, 10, label);
    assert_memory_equal(label, step0, sizeof step0);
    oracle_fill_labels(12, 6, 1000, label);
    assert_memory_equal(label, step12, sizeof step12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params), cmocka_unit_test(test_running_statistics_start_fresh),
        cmocka_unit_test(test_images), cmocka_unit_test(test_pixels),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests_name("oracle_fill", tests, NULL, NULL);
}
