/* Tests how a convolution gets its plan on a GPU: plans are timed, shared, stored and refused. The
 * GPU and the library are fakes (gpu_double.h). */
#include "base/file.h"
#include "gpu_double.h"
#include "kernels/cuda/conv_exec.h"
#include "kernels/cuda/conv_plan.h"
#include "kernels/cuda/op_timer.h"
#include "kernels/cuda/plan_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the set-up of every test ---- */

static char folder[64], inner[80], file[96];

static const struct conv_problem problem = {
    .type = DTYPE_F16,
    .n = 8,
    .c = 64,
    .h = 7,
    .w = 7,
    .k = 64,
    .r = 1,
    .s = 1,
    .p = 7,
    .q = 7,
    .conv = {.stride = {1, 1}, .groups = 1},
};

static struct cuda_device new_gpu(void)
{
    unlink(file);
    return gpu_new();
}

static void close_gpu(struct cuda_device *dev)
{
    cuda_close_opened(dev);
    assert_int_equal(gpu.used, 0);
}

static struct conv_exec *opened(struct cuda_device *dev, const struct conv_problem *p)
{
    struct conv_exec *exec;
    assert_int_equal(conv_exec_open(dev, p, &exec), STATUS_OK);
    return exec;
}

static enum status refused(struct cuda_device *dev, const struct conv_problem *p)
{
    struct conv_exec *exec;
    enum status st = conv_exec_open(dev, p, &exec);
    assert_null(exec);
    return st;
}

static void check_opened(struct cuda_device *dev, const char *impl)
{
    struct conv_exec *exec = opened(dev, &problem);
    assert_string_equal(exec->impl, impl);
    conv_exec_close(exec);
}

static bool says(const char *part)
{
    if (strstr(status_message(), part))
        return true;
    printf("message: %s\n", status_message());
    return false;
}

/* Returns the plans that the file contains. */
static struct plan_cache *kept(void)
{
    struct plan_cache *cache;
    assert_int_equal(plan_cache_open(&cache), STATUS_OK);
    assert_int_equal(plan_cache_load(cache, file), STATUS_OK);
    return cache;
}

static size_t kept_choices(void)
{
    struct plan_cache *cache = kept();
    size_t n = plan_cache_count(cache);
    plan_cache_close(cache);
    return n;
}

static void key_of_problem(char key[PLAN_KEY_MAX])
{
    const struct cudnn_device props = {.name = "NVIDIA H200", .sm = 90};
    const struct plan_limits limits = {0};
    conv_plan_key(&props, &problem, &limits, key);
}

static int64_t kept_nanoseconds(void)
{
    char key[PLAN_KEY_MAX];
    struct plan_cache *cache = kept();
    key_of_problem(key);
    const struct plan_choice *choice = plan_cache_find(cache, key);
    assert_non_null(choice);
    int64_t nanoseconds = choice->nanoseconds;
    plan_cache_close(cache);
    return nanoseconds;
}

/* ---- timing ---- */

static void the_fastest_is_taken(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 2");
    assert_int_equal(exec->workspace, 512);
    assert_int_equal(gpu.executions,
                     3 * (1 + 5) + 2); /* engine 3 runs only twice, because it is slow */
    conv_exec_close(exec);
    close_gpu(&dev);
    assert_int_equal(kept_nanoseconds(), 3000000); /* the host's 2 ms are not included */
}

/* With short kernels, the latency of an execution alone is as long as the kernel. A faster plan is
 * found even so. */
static void short_plans_are_compared_alike(void **state)
{
    static const double ms[GPU_ENGINES] = {0.004, 0.0035, 0.003, 0.03};
    struct cuda_device dev = new_gpu();
    (void)state;
    memcpy(gpu.engine_ms, ms, sizeof ms);
    gpu.host_ms = 0.001;
    gpu.latency_ms = 0.004;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 2");
    assert_int_equal(gpu.executions, 3 * (2 + 5 * 8) + 2);
    conv_exec_close(exec);
    close_gpu(&dev);
    assert_in_range(kept_nanoseconds(), 3499, 3500);
}

static void what_fails_is_left_out(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    gpu.fails[2] = true;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 1");
    conv_exec_close(exec);
    close_gpu(&dev);

    dev = new_gpu();
    for (int i = 0; i < GPU_ENGINES; i++)
        gpu.fails[i] = true;
    assert_int_equal(refused(&dev, &problem), STATUS_LIBRARY); /* the engine exists, but fails */
    assert_true(says("every plan for 'NVIDIA H200 sm90 cudnn91900 fwd "));
    assert_true(says(": engine 3: cuDNN fails"));
    close_gpu(&dev);
}

/* If every precompiled engine fails, an engine that is compiled at run time may still work. */
static void a_compiled_engine_replaces_engines_that_fail(void **state)
{
    struct cuda_device dev = new_gpu();
    struct conv_problem fused = problem;
    (void)state;
    gpu.compiled[1] = true;
    gpu.fails[0] = gpu.fails[2] = gpu.fails[3] = true;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 1");
    conv_exec_close(exec);
    fused.form = CONV_APPLY_FWD_STATS; /* separate operations replace this form */
    assert_int_equal(refused(&dev, &fused), STATUS_LIBRARY);
    assert_true(says(": engine 3: cuDNN fails"));
    close_gpu(&dev);
    exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 1");
    conv_exec_close(exec);
    close_gpu(&dev);
}

/* An engine that breaks the GPU ends the search. The message names it, and later processes do not
 * execute it for this form and type, even if this process could not close its device. */
static void what_breaks_the_gpu_is_left_out_later(void **state)
{
    struct cuda_device dev = new_gpu();
    struct conv_problem other = problem;
    (void)state;
    gpu.breaks[1] = true;
    assert_int_equal(refused(&dev, &problem), STATUS_LIBRARY);
    assert_true(says("engine 1 of cuDNN broke the GPU as it was timed for 'NVIDIA H200 sm90 "
                     "cudnn91900 fwd fp16 n8 "));
    assert_true(says("AMPSCALE_CUDNN_WITHOUT=1 excludes it everywhere: cuDNN fails"));
    assert_int_equal(gpu.executions, 6 + 1); /* a plan that has failed is not executed again */
    assert_int_equal(kept_choices(), 1);
    cuda_close_opened(&dev);

    dev = gpu_new();
    gpu.breaks[1] = true;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 2");
    conv_exec_close(exec);
    other.n = 4;
    conv_exec_close(opened(&dev, &other));
    other.form = CONV_BWD_DATA; /* its engines have other numbers */
    assert_int_equal(refused(&dev, &other), STATUS_LIBRARY);
    cuda_close_opened(&dev);
    dev = gpu_new();
    gpu.breaks[1] = true;
    other = problem;
    other.type = DTYPE_BF16;
    assert_int_equal(refused(&dev, &other), STATUS_LIBRARY);
    cuda_close_opened(&dev);
}

/* A fused form whose plan computes wrong values is not used, nor in later processes. Other forms
 * are. */
static void what_computes_wrong_values_is_left_out(void **state)
{
    struct cuda_device dev = new_gpu();
    struct conv_problem fused = problem;
    (void)state;
    fused.form = CONV_APPLY_FWD_STATS;
    gpu.wrong = true;
    assert_int_equal(refused(&dev, &fused), STATUS_LIBRARY);
    assert_true(says("engine 2 of cuDNN computes wrong values for 'NVIDIA H200 sm90 cudnn91900 "
                     "apply+fwd+stats fp16 n8 "));
    assert_true(says(": Y differs by 0.5 from that of the unfused parts"));
    check_opened(&dev, "cudnn:fwd engine 2");
    close_gpu(&dev);

    dev = gpu_new();
    assert_int_equal(refused(&dev, &fused), STATUS_LIBRARY);
    assert_true(says("cuDNN computed wrong values for 'NVIDIA H200 "));
    assert_int_equal(gpu.executions, 0);
    fused.n = 4;
    conv_exec_close(opened(&dev, &fused));
    close_gpu(&dev);
}

/* The journal names engines that crashed earlier processes. Lines that are no keys of engines are
 * ignored. */
static void what_crashed_is_left_out(void **state)
{
    struct cuda_device dev = new_gpu();
    char path[PATH_MAX + 16], key[PLAN_KEY_MAX];
    const struct cudnn_device props = {.name = "NVIDIA H200", .sm = 90};
    (void)state;
    conv_plan_engine_key(&props, &problem, 2, key);
    snprintf(path, sizeof path, "%s.broken", file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "\n\x01 without engine 1\nno key\n%s\n%.20s", key, key);
    fclose(f);
    check_opened(&dev, "cudnn:fwd engine 1");
    close_gpu(&dev);
    unlink(path);
    dev = gpu_new(); /* the file of plans has the fact, too */
    struct conv_problem other = problem;
    other.n = 4;
    struct conv_exec *exec = opened(&dev, &other);
    assert_string_equal(exec->impl, "cudnn:fwd engine 1");
    conv_exec_close(exec);
    close_gpu(&dev);
}

/* ---- engines that the user excludes ---- */

/* Excluded engines are neither timed nor taken from the file. */
static void what_the_user_excludes_is_not_used(void **state)
{
    struct cuda_device dev = new_gpu();
    struct conv_problem fused = problem;
    (void)state;
    fused.form = CONV_APPLY_FWD_STATS;
    conv_exec_close(opened(&dev, &problem)); /* the file has engine 2 */
    close_gpu(&dev);
    assert_int_equal(setenv("AMPSCALE_CUDNN_WITHOUT", "2", 1), 0);
    dev = gpu_new();
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 1");
    conv_exec_close(exec);
    close_gpu(&dev);
    assert_int_equal(setenv("AMPSCALE_CUDNN_WITHOUT", "0,1,2,3", 1), 0);
    dev = gpu_new();
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    close_gpu(&dev);
    assert_int_equal(setenv("AMPSCALE_CUDNN_WITHOUT", "two", 1), 0);
    dev = gpu_new();
    assert_int_equal(refused(&dev, &problem), STATUS_USAGE);
    close_gpu(&dev);
    assert_int_equal(unsetenv("AMPSCALE_CUDNN_WITHOUT"), 0);
    dev = gpu_new();
    conv_exec_close(opened(&dev, &fused)); /* the file does not say that it has no plan */
    close_gpu(&dev);
}

static void without_memory_nothing_is_timed(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    gpu.memory = 1 << 20;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 0");
    assert_int_equal(gpu.executions, 0);
    conv_exec_close(exec);
    close_gpu(&dev);
    assert_false(path_exists(file));
}

/* A plan that needs more workspace than the limit is skipped. The other plans are still timed. */
static void a_plan_without_memory_is_left_out(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    conv_exec_close(opened(&dev, &problem));
    close_gpu(&dev);
    size_t all = gpu.most;
    dev = new_gpu();
    /* Only the 256 bytes of engine 1 fit. Engine 2 needs 512 bytes, and engine 3 needs 768. */
    gpu.memory = all - 512;
    gpu.engine_ms[3] = 1;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 1");
    conv_exec_close(exec);
    close_gpu(&dev);
}

static void deterministic_devices_ask_no_clock(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    dev.base.deterministic = true;
    check_opened(&dev, "cudnn:fwd engine 0");
    assert_int_equal(gpu.executions, 0);
    close_gpu(&dev);
    assert_false(path_exists(file));
}

/* A device may time a few of the plans, or none. It then takes the first plan that runs. A choice
 * among more plans, which an earlier run has stored, is better. */
static void fewer_plans_may_be_timed(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    dev.base.plans = 1;
    gpu.fails[0] = true;
    check_opened(&dev, "cudnn:fwd engine 1");
    assert_int_equal(gpu.executions, 2);
    close_gpu(&dev);
    assert_false(path_exists(file));

    dev = new_gpu();
    dev.base.plans = 2;
    check_opened(&dev, "cudnn:fwd engine 1");
    assert_int_equal(gpu.executions, 2 * (1 + 1)); /* each is timed once */
    close_gpu(&dev);
    dev = gpu_new();
    dev.base.plans = 2;
    check_opened(&dev, "cudnn:fwd engine 1");
    assert_int_equal(gpu.executions, 0);
    close_gpu(&dev);
    dev = gpu_new();
    check_opened(&dev, "cudnn:fwd engine 2");
    close_gpu(&dev);
    for (int plans = 1; plans <= 2; plans++) {
        dev = gpu_new();
        dev.base.plans = plans;
        check_opened(&dev, "cudnn:fwd engine 2");
        assert_int_equal(gpu.executions, 0);
        close_gpu(&dev);
    }
}

/* ---- stored choices ---- */

static void a_plan_is_made_once(void **state)
{
    struct cuda_device dev = new_gpu();
    struct conv_problem other = problem;
    (void)state;
    struct conv_exec *first = opened(&dev, &problem), *second = opened(&dev, &problem);
    assert_int_equal(gpu.lists, 1);
    conv_exec_close(first);
    first = opened(&dev, &problem);
    assert_int_equal(gpu.lists, 1);
    assert_int_equal(gpu.again, 0);
    other.n = 4;
    struct conv_exec *third = opened(&dev, &other);
    assert_int_equal(gpu.lists, 2);
    conv_exec_close(first);
    conv_exec_close(second);
    conv_exec_close(third);
    close_gpu(&dev);
}

static void a_choice_is_kept_in_a_file(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    conv_exec_close(opened(&dev, &problem));
    close_gpu(&dev);
    assert_true(path_exists(file));
    int lists = gpu.lists, executions = gpu.executions;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 2");
    assert_int_equal(gpu.lists, lists);
    assert_int_equal(gpu.executions, executions);
    conv_exec_close(exec);
    close_gpu(&dev);
}

/* Choices are written early. If a process is killed while it plans, the next process continues with
 * the stored choices. If it is killed after its first step, the next process makes the same
 * choices. */
static void a_choice_is_written_before_the_end(void **state)
{
    struct cuda_device dev = new_gpu();
    (void)state;
    struct conv_exec *exec = opened(&dev, &problem);
    assert_true(path_exists(file));
    conv_exec_close(exec);
    struct conv_problem other = problem;
    other.n = 4;
    exec = opened(&dev, &other); /* its choice is not stored yet: the last write was too recent */
    assert_int_equal(kept_choices(), 1);
    void *port[CG_PORT_COUNT] = {[CG_X] = &dev, [CG_W] = &dev, [CG_Y] = &dev};
    assert_int_equal(conv_exec_run(exec, port, NULL, NULL), STATUS_OK);
    assert_int_equal(kept_choices(), 2);
    conv_exec_close(exec);
    close_gpu(&dev);
}

/* An invalid entry for `problem` in the file is ignored: the run does not fail, and plans are
 * timed. */
static void check_timed_again(const struct plan_choice *gone)
{
    struct cuda_device dev = new_gpu();
    struct plan_cache *cache;
    char key[PLAN_KEY_MAX];
    key_of_problem(key);
    assert_int_equal(plan_cache_open(&cache), STATUS_OK);
    assert_int_equal(plan_cache_put(cache, key, gone), STATUS_OK);
    assert_int_equal(plan_cache_save(cache, file), STATUS_OK);
    plan_cache_close(cache);
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 2");
    assert_true(gpu.executions > 0);
    conv_exec_close(exec);
    close_gpu(&dev);
    assert_true(kept_nanoseconds() > 1); /* the new time is stored for the next run */
}

static void a_choice_that_cannot_be_made_is_timed_again(void **state)
{
    const struct plan_choice facts[] = {{.engine = 99, .nanoseconds = 1},
                                        {.fact = PLAN_TIMED, .nanoseconds = 1},
                                        {.fact = PLAN_LACKING}};
    (void)state;
    for (int i = 0; i < 3; i++)
        check_timed_again(&facts[i]);
}

static void a_lack_is_asked_for_once(void **state)
{
    struct cuda_device dev = new_gpu();
    struct conv_problem fused = problem;
    (void)state;
    fused.form = CONV_APPLY_FWD_STATS;
    /* No engine is precompiled, and forms with batch norm must not be compiled at run time. */
    gpu.only_compiled = true;
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    assert_int_equal(gpu.lists, 1);
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    assert_true(says("no plan for 'NVIDIA H200 sm90 cudnn91900 apply+fwd+stats "));
    assert_int_equal(gpu.lists, 1);
    close_gpu(&dev);
    /* the next run does not ask the library again */
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    assert_true(says("no plan for 'NVIDIA H200 sm90 cudnn91900 apply+fwd+stats "));
    assert_int_equal(gpu.lists, 1);
    struct conv_exec *exec = opened(&dev, &problem);
    assert_string_equal(exec->impl, "cudnn:fwd engine 0");
    conv_exec_close(exec);
    gpu.nothing = true;
    fused.form = CONV_BWD_DATA;
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    int lists = gpu.lists;
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    assert_int_equal(gpu.lists, lists);
    close_gpu(&dev);
    gpu.nothing = gpu.only_compiled = false; /* the installation has been repaired */
    conv_exec_close(opened(&dev, &fused));
    assert_true(gpu.lists > lists);
    close_gpu(&dev);

    dev = new_gpu();
    fused.form = CONV_APPLY_FWD_STATS;
    gpu.nothing = gpu.incomplete = true; /* a part of the library cannot be loaded */
    assert_int_equal(refused(&dev, &fused), STATUS_UNSUPPORTED);
    close_gpu(&dev);
    gpu.nothing = gpu.incomplete = false;
    conv_exec_close(opened(&dev, &fused));
    close_gpu(&dev);
}

/* ---- execution ---- */

static void pointers_are_bound_when_they_change(void **state)
{
    struct cuda_device dev = new_gpu();
    char memory[4];
    void *port[CG_PORT_COUNT] = {[CG_X] = &memory[0], [CG_W] = &memory[1], [CG_Y] = &memory[2]};
    (void)state;
    struct conv_exec *exec = opened(&dev, &problem);
    int packs = gpu.packs, executions = gpu.executions;
    assert_int_equal(conv_exec_run(exec, port, NULL, NULL), STATUS_OK);
    assert_int_equal(conv_exec_run(exec, port, NULL, NULL), STATUS_OK);
    assert_int_equal(gpu.packs, packs + 1);
    port[CG_Y] = &memory[3];
    assert_int_equal(conv_exec_run(exec, port, NULL, NULL), STATUS_OK);
    assert_int_equal(conv_exec_run(exec, port, memory, NULL), STATUS_OK);
    assert_int_equal(gpu.packs, packs + 3);
    assert_int_equal(gpu.executions, executions + 4);
    conv_exec_close(exec);
    close_gpu(&dev);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ampscale-conv-exec-XXXXXX");
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) != 0)
        return -1;
    snprintf(inner, sizeof inner, "%s/ampscale", folder);
    snprintf(file, sizeof file, "%s/plans", inner);
    return mkdir(inner, 0700);
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(inner) || rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_taken),
        cmocka_unit_test(short_plans_are_compared_alike),
        cmocka_unit_test(what_fails_is_left_out),
        cmocka_unit_test(a_compiled_engine_replaces_engines_that_fail),
        cmocka_unit_test(what_breaks_the_gpu_is_left_out_later),
        cmocka_unit_test(what_computes_wrong_values_is_left_out),
        cmocka_unit_test(what_crashed_is_left_out),
        cmocka_unit_test(what_the_user_excludes_is_not_used),
        cmocka_unit_test(without_memory_nothing_is_timed),
        cmocka_unit_test(a_plan_without_memory_is_left_out),
        cmocka_unit_test(deterministic_devices_ask_no_clock),
        cmocka_unit_test(fewer_plans_may_be_timed),
        cmocka_unit_test(a_plan_is_made_once),
        cmocka_unit_test(a_choice_is_kept_in_a_file),
        cmocka_unit_test(a_choice_is_written_before_the_end),
        cmocka_unit_test(a_choice_that_cannot_be_made_is_timed_again),
        cmocka_unit_test(a_lack_is_asked_for_once),
        cmocka_unit_test(pointers_are_bound_when_they_change),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
