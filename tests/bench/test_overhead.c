/* Tests that overheads are measured, and that the benchmark detects work that was not executed. */
#include "bench/overhead.h"
#include "broken.h"
#include "comm/world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct harness_config quick = {.warmup = 1, .most = 4};

static void assert_right(const struct overhead_row *row, int64_t done)
{
    assert_true(row->valid);
    assert_int_equal(row->done, done);
    assert_int_equal(row->time.n, 4);
    assert_true(row->time.median > 0);
}

static void test_right(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        struct micro m;
        struct overhead_row row;
        assert_int_equal(micro_open(devices[i], 1, &m), STATUS_OK);
        assert_int_equal(overhead_launch(&quick, &m, &row), STATUS_OK);
        assert_right(&row, 5 * OVERHEAD_BATCH);
        assert_int_equal(overhead_event(&quick, &m, &row), STATUS_OK);
        assert_right(&row, 5 * OVERHEAD_BATCH);
        assert_int_equal(overhead_step(&quick, &m, &row), STATUS_OK);
        assert_right(&row, 6);
        micro_close(&m);
    }
}

static void test_host(void **state)
{
    (void)state;
    struct world alone = {.size = 1};
    struct overhead_row row;
    assert_int_equal(overhead_record(&quick, &row), STATUS_OK);
    assert_right(&row, 5 * OVERHEAD_BATCH);
    assert_int_equal(overhead_allreduce(&quick, &alone, &row), STATUS_OK);
    assert_right(&row, 5);
}

static double no_time(const struct event *from, const struct event *to)
{
    (void)from;
    (void)to;
    return 0;
}

static void test_wrong(void **state)
{
    (void)state;
    struct broken broken;
    struct micro m = {.dev = broken_open(&broken, OP_ADD, ROLE_Y)};
    struct overhead_row row;
    assert_int_equal(m.dev->backend->stream_open(m.dev, &m.stream), STATUS_OK);
    assert_int_equal(overhead_launch(&quick, &m, &row), STATUS_OK);
    assert_false(row.valid);
    broken.base.event_seconds = no_time;
    assert_int_equal(overhead_event(&quick, &m, &row), STATUS_OK);
    assert_false(row.valid);
    m.dev->backend->stream_close(m.stream);
    device_close(m.dev);
}

/* The optimizer of this step does nothing, which the benchmark must detect. */
static void test_wrong_step(void **state)
{
    (void)state;
    struct broken broken;
    struct micro m = {.dev = broken_open(&broken, OP_SGD, ROLE_W)};
    struct overhead_row row;
    broken.idle = true;
    assert_int_equal(overhead_step(&quick, &m, &row), STATUS_OK);
    assert_false(row.valid);
    device_close(m.dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_wrong_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
