/* Tests convolutions that are matrix products (kernels/cuda/conv_product.h) on the fake GPU: their
 * values, and the choice between the product and cuDNN's plan, which depends on two stored times.
 */
#include "base/file.h"
#include "kernels/cuda/plan_cache.h"
#include "tests/kernels/group.h"
#include "tests/sanitized.h"
#include "verify/comparison.h"
#include "verify/describe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], inner[80], file[96], journal[112];

static struct device *gpu(const char *spec)
{
    struct device *dev;
    OK(device_open(spec, 1, &dev));
    return dev;
}

/* --- values --- */

static bool is_product(const struct op_desc *d)
{
    const struct tensor_desc *w = &d->t[d->kind == OP_CONV_BWD_WEIGHTS ? ROLE_DW : ROLE_W];
    const struct conv_attr *v = &d->attr.conv;
    return op_in(d->kind, OPS_CONV) && w->dim[2] * w->dim[3] == 1 && v->groups == 1 &&
           v->stride[0] * v->stride[1] == 1 && v->pad[0] + v->pad[1] == 0;
}

/* The type in which the products of a case are computed: a stored type, or TF32. */
static enum dtype product_type(const struct op_desc *d)
{
    const struct tensor_desc *dy = &d->t[d->kind == OP_CONV_FWD ? ROLE_X : ROLE_DY];
    return dy->rounds == DTYPE_TF32 ? DTYPE_TF32 : dy->type;
}

static void compare_cases(struct comparison *h, int cases[OP_KIND_COUNT][DTYPE_COUNT])
{
    struct case_list list;
    OK(case_list_new(&list));
    for (int i = 0; i < list.n; i++) {
        const struct op_case *c = &list.item[i];
        struct op_plan *plan;
        if (!op_in(c->desc.kind, OPS_CONV) || op_plan(h->dev, &c->desc, &plan) != STATUS_OK)
            continue;
        if (!is_product(&c->desc) || strcmp(plan->impl, "cublaslt") != 0)
            fail_msg("%s: planned as %s without an engine of cuDNN", c->name, plan->impl);
        op_plan_free(plan);
        if (cases[c->desc.kind][product_type(&c->desc)]++ % (SANITIZED ? 8 : 1) == 0)
            comparison_run(h, i, c);
    }
    case_list_free(&list);
    assert_true(h->passed > 0);
    assert_int_equal(h->failed + h->skipped, 0);
}

/* If the user excludes all engines of cuDNN, only products are left. Turing has no bf16 or TF32. */
static void products_equal_the_reference(void **state)
{
    (void)state;
    assert_int_equal(setenv("AMPSCALE_CUDNN_WITHOUT", "0,1,2,3,4,5,6,7,8", 1), 0);
    for (int turing = 0; turing < 2; turing++) {
        int cases[OP_KIND_COUNT][DTYPE_COUNT] = {{0}};
        struct comparison h = {.problem.number = -1, .dev = gpu(turing ? "cuda:2" : "cuda:0")};
        OK(device_open("ref", 1, &h.ref));
        compare_cases(&h, cases);
        for (int kind = 0; kind < OP_KIND_COUNT; kind++)
            for (int type = 0; op_in((enum op_kind)kind, OPS_CONV) && type < DTYPE_COUNT; type++)
                if (type == DTYPE_F32 || type == DTYPE_F16 ||
                    (!turing && (type == DTYPE_BF16 || type == DTYPE_TF32)))
                    assert_true(cases[kind][type] > 0);
        comparison_close(&h);
        device_close(h.dev);
        device_close(h.ref);
    }
    assert_int_equal(unsetenv("AMPSCALE_CUDNN_WITHOUT"), 0);
}

/* --- the choice --- */

static char *file_text(void)
{
    char *text;
    size_t size;
    OK(file_read(file, 1 << 20, &text, &size));
    return text;
}

/* Returns the key of the one product whose time is in the file. */
static char *key_of_product(void)
{
    char *text = file_text(), *key = NULL;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "time ", 5) == 0 && strstr(line, " cublaslt")) {
            assert_null(key);
            key = strdup(strchr(line + 5, ' ') + 1);
        }
    free(text);
    assert_non_null(key);
    return key;
}

/* Returns the product's stored time; if `nanoseconds` is above 0, stores that first. */
static int64_t stored_time(const char *key, int64_t nanoseconds)
{
    struct plan_cache *cache;
    const struct plan_choice fact = {.fact = PLAN_TIMED, .nanoseconds = nanoseconds};
    OK(plan_cache_open(&cache));
    OK(plan_cache_load(cache, file));
    if (nanoseconds > 0) {
        OK(plan_cache_put(cache, key, &fact));
        OK(plan_cache_save(cache, file));
    }
    int64_t stored = plan_cache_find(cache, key)->nanoseconds;
    plan_cache_close(cache);
    return stored;
}

/* Removes all facts but the choice of cuDNN's plan. */
static void forget_product(const char *key)
{
    struct plan_cache *all, *plan;
    char *of_plan = strdup(key);
    *strstr(of_plan, " cublaslt") = '\0';
    OK(plan_cache_open(&all));
    OK(plan_cache_open(&plan));
    OK(plan_cache_load(all, file));
    const struct plan_choice *choice = plan_cache_find(all, of_plan);
    assert_true(choice && choice->fact == PLAN_CHOSEN && choice->nanoseconds > 0);
    OK(plan_cache_put(plan, of_plan, choice));
    OK(plan_cache_save(plan, file));
    plan_cache_close(all);
    plan_cache_close(plan);
    free(of_plan);
}

/* Opens the GPU, as a new process does, and plans a convolution on it. */
static void expect(enum op_kind kind, int plans, bool deterministic, const char *impl)
{
    const struct conv_shape shape = {2, 64, 8, 8, 64, {1, 1}, {1, 1}, {0, 0}, 1};
    struct op_desc d = describe_conv(kind, &shape, 0);
    struct device *dev = gpu("cuda:0");
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4)
            d.t[r].layout = LAYOUT_ANY;
    struct op_plan *plan;
    dev->plans = plans;
    dev->deterministic = deterministic;
    OK(op_plan(dev, &d, &plan));
    assert_memory_equal(plan->impl, impl, strlen(impl));
    op_plan_free(plan);
    device_close(dev);
}

/* The faster of both times in the file wins. No time is measured again: the stored ones are far
 * from any measurement, and stay. */
static void the_stored_times_decide(void **state)
{
    static const enum op_kind kinds[] = {OP_CONV_FWD, OP_CONV_BWD_DATA, OP_CONV_BWD_WEIGHTS};
    static const int64_t hour = INT64_C(3600000000000);
    (void)state;
    for (int i = 0; i < 3; i++) {
        unlink(file);
        expect(kinds[i], 0, false, "c"); /* "cudnn:" or "cublaslt": measured */
        char *key = key_of_product();
        assert_int_equal(stored_time(key, 1), 1);
        expect(kinds[i], 0, false, "cublaslt");
        expect(kinds[i], 0, true, "cudnn:"); /* a deterministic device compares no times */
        assert_int_equal(stored_time(key, hour), hour);
        expect(kinds[i], 0, false, "cudnn:");
        assert_int_equal(stored_time(key, 0), hour);
        free(key);
    }
}

/* A device that times nothing uses the product only where an earlier run has timed it. One that
 * times each plan once measures a time of its own, unless there is a better one. */
static void few_plans_are_timed(void **state)
{
    (void)state;
    unlink(file);
    expect(OP_CONV_FWD, 1, false, "cudnn:");
    assert_false(path_exists(file));
    expect(OP_CONV_FWD, 4, false, "c");
    char *once = key_of_product();
    assert_non_null(strstr(once, " once"));
    unlink(file);
    expect(OP_CONV_FWD, 0, false, "c");
    char *key = key_of_product();
    assert_int_equal(stored_time(key, 1), 1);
    expect(OP_CONV_FWD, 1, false, "cublaslt");
    expect(OP_CONV_FWD, 4, false, "cublaslt");
    assert_int_equal(stored_time(key, 0), 1);
    forget_product(key);
    char *before = file_text(), *after;
    expect(OP_CONV_FWD, 1, false, "cudnn:");
    after = file_text();
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(once);
    free(key);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ampscale-conv-product-XXXXXX");
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) != 0)
        return -1;
    snprintf(inner, sizeof inner, "%s/ampscale", folder);
    snprintf(file, sizeof file, "%s/plans", inner);
    snprintf(journal, sizeof journal, "%s.broken", file);
    return mkdir(inner, 0700);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(file);
    unlink(journal);
    return rmdir(inner) || rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stored_times_decide),
        cmocka_unit_test(few_plans_are_timed),
        cmocka_unit_test(products_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
