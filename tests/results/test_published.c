/* Tests tables of published results: those of this project are valid, and invalid tables are
 * refused. */
#include "results/published.h"
#include "scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum status load(const char *dir, const char *text, size_t size, struct published *p)
{
    char path[SCRATCH_MAX + 16];
    scratch_write(dir, "table.csv", text, size);
    snprintf(path, sizeof path, "%s/table.csv", dir);
    return published_load(path, p);
}

static void test_own_tables(void **state)
{
    static const char *const files[] = {"hal_v100.csv", "deeplearningexamples.csv", "others.csv"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct published p;
        char path[4096];
        snprintf(path, sizeof path, "%s/results/published/%s", SOURCE_DIR, files[i]);
        if (published_load(path, &p) != STATUS_OK)
            fail_msg("%s", status_message());
        for (int k = 0; k < p.n; k++) {
            const struct published_series *s = &p.series[k];
            double last = published_efficiency(s, s->n - 1);
            assert_true(s->n >= 2 && s->source[0] && s->hardware[0] && s->gpus_per_node > 0);
            assert_true(strcmp(s->name, "mlperf-v3.0-h100") == 0 || (last > 50 && last < 101));
        }
        published_free(&p);
    }
}

static void test_reading(void **state)
{
    static const char text[] = "# a comment\n"
                               "gpus,series,images_per_s,efficiency,overlap\r\n"
                               "# source: here and there\n"
                               "2,one,100,,yes\r\n"
                               "8,two,,90,\n"
                               "\n"
                               "4,one,150,,yes\n";
    struct published p;
    const struct published_series *s;
    if (load(*state, text, sizeof text - 1, &p) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(p.n, 2);
    assert_int_equal(published_find(&p, "one", &s), STATUS_OK);
    assert_int_equal(s->n, 2);
    assert_string_equal(s->source, "here and there");
    assert_string_equal(s->overlap, "yes");
    assert_true(published_efficiency(s, 1) == 75);
    assert_true(isnan(s->point[1].train_time_s) && s->point[1].batch_per_gpu == 0);
    assert_true(published_efficiency(&p.series[1], 0) == 90);
    assert_int_equal(published_find(&p, "three", &s), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "one, two"));
    published_free(&p);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {
        "",
        "# nothing\n",
        "gpus,series,images_per_s\n",
        "gpus,images_per_s\n1,2\n",
        "gpus,series,colour\n1,a,red\n",
        "gpus,series,gpus\n1,a,1\n",
        "gpus,series,images_per_s\n1,a\n",
        "gpus,series,images_per_s\n1,a,2,3\n",
        "gpus,series,images_per_s\n1,a,2",
        "gpus,series,images_per_s\n1,a,2\n2,a,4",
        "gpus,series,images_per_s\n1,a,\n",
        "gpus,series,images_per_s\n,a,2\n",
        "gpus,series,images_per_s\n1,,2\n",
        "gpus,series,images_per_s\n0,a,2\n",
        "gpus,series,images_per_s\n1.5,a,2\n",
        "gpus,series,images_per_s\n-1,a,2\n",
        "gpus,series,images_per_s\n1,a,nan\n",
        "gpus,series,images_per_s\n1,a,1e300\n",
        "gpus,series,images_per_s\n1,a,2 \n",
        "gpus,series,images_per_s\n1,a,0\n",
        "gpus,series,images_per_s\n2,a,2\n2,a,3\n",
        "gpus,series,images_per_s\n1,a\tb,2\n",
        "gpus,series,images_per_s\n1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,2\n",
        "gpus,series,images_per_s,overlap\n1,a,2,maybe\n",
        "gpus,series,images_per_s,gradients\n1,a,2,fp8\n",
        "gpus,series,images_per_s,arch\n1,a,2,x\n2,a,2,y\n",
        ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n",
    };
    struct published p;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (load(*state, bad[i], strlen(bad[i]), &p) != STATUS_DATA)
            fail_msg("taken: %s", bad[i]);
    static const char nul[] = "gpus,series,images_per_s\n1,a\0b,2\n";
    assert_int_equal(load(*state, nul, sizeof nul - 1, &p), STATUS_DATA);
    assert_int_equal(published_load("/nowhere/table.csv", &p), STATUS_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_tables),
        cmocka_unit_test_setup_teardown(test_reading, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
