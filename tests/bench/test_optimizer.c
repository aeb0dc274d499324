/* Tests the benchmark of the optimizer's update: its bytes of memory traffic, correct results at
 * all precisions, and the detection of a wrong result. */
#include "bench/optimizer.h"
#include "broken.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct bench_options quick = {
    .net = "resnet8", .emulate = true, .timing = {.warmup = 1, .most = 3}};

static void test_precisions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double bytes; /* bytes moved per parameter */
        bool emulated;
    } precisions[] = {{"fp32", 20, false},
                      {"amp", 24, true},
                      {"bf16", 24, true},
                      {"O2", 24, true},
                      {"O3", 20, true}};
    static const char *const devices[] = {"cpu", "ref"};
    struct graph *g;
    assert_int_equal(graph_build("resnet8", 10, 32, &g), STATUS_OK);
    for (int dev = 0; dev < 2; dev++) {
        struct micro m;
        assert_int_equal(micro_open(devices[dev], 1, &m), STATUS_OK);
        for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
            struct optimizer_row row;
            assert_int_equal(optimizer_measure(&quick, &m, g, precisions[i].name, &row), STATUS_OK);
            assert_true(row.parameters >= graph_params_trained(g));
            assert_true(row.bytes == precisions[i].bytes * (double)row.parameters);
            assert_int_equal(row.emulated, precisions[i].emulated);
            assert_true(row.wrong == 0 && row.time.n == 3 && row.segments > 0);
        }
        micro_close(&m);
    }
    graph_free(g);
}

static void test_wrong(void **state)
{
    (void)state;
    static const enum role roles[] = {ROLE_W, ROLE_MOMENTUM, ROLE_WCOPY};
    struct graph *g;
    assert_int_equal(graph_build("resnet8", 10, 32, &g), STATUS_OK);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        struct broken broken;
        struct micro m;
        struct optimizer_row row;
        assert_int_equal(micro_open("cpu", 1, &m), STATUS_OK);
        struct micro bad = m;
        bad.dev = broken_open(&broken, OP_SGD, roles[i]);
        assert_int_equal(bad.dev->backend->stream_open(bad.dev, &bad.stream), STATUS_OK);
        assert_int_equal(optimizer_measure(&quick, &bad, g, "amp", &row), STATUS_OK);
        assert_int_equal(row.wrong, 1);
        bad.dev->backend->stream_close(bad.stream);
        device_close(bad.dev);
        micro_close(&m);
    }
    graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precisions),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
