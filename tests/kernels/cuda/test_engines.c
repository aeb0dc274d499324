/* Tests which engine of cuDNN a convolution gets if engines fail, break the GPU, compute wrong
 * values or are excluded, in this process and in those after it. Each process plans one convolution
 * on the fake GPU (fake/inject.h).
 *
 *     engines fwd|fused TYPE CHANNELS PLANS
 *
 * plans a convolution in this process, and prints the implementation or the status's message. */
#include "base/file.h"
#include "kernels/cuda/plan_cache.h"
#include "tests/kernels/group.h"
#include "tests/suite.h"
#include "verify/describe.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char program[PATH_MAX], file[96], journal[112];

static int plan_here(void)
{
    const int channels = atoi(suite_argv[3]);
    const struct conv_shape shape = {2, channels, 6, 6, 16, {3, 3}, {1, 1}, {1, 1}, 1};
    const bool fused = strcmp(suite_argv[1], "fused") == 0;
    struct op_desc d = describe_conv(fused ? OP_CONV_BWD_DATA_BN : OP_CONV_FWD, &shape, 0);
    struct device *dev;
    struct op_plan *plan = NULL;
    enum status st = device_open("cuda:0", 1, &dev);
    if (st == STATUS_OK) {
        dev->plans = atoi(suite_argv[4]);
        d = fused_of_type(d, strcmp(suite_argv[2], "bf16") == 0 ? DTYPE_BF16 : DTYPE_F16);
        st = op_plan(dev, &d, &plan);
    }
    if (plan)
        printf("%s\n", plan->impl);
    else
        printf("%s: %s\n", status_str(st), status_message());
    op_plan_free(plan);
    device_close(dev);
    return 0;
}

/* One process: what goes wrong in it, the convolution that it plans, and what it must print. In
 * these texts '#' is the engine of the first process of all. */
struct process {
    const char *story; /* begins without a file; NULL: the file of the process before */
    const char *fault, *without;
    bool fused, bf16;
    int channels;     /* 0: the usual number */
    int plans;        /* that may be timed; 0: the first that runs is taken */
    const char *says; /* NULL: another engine than '#' */
};

static const struct process processes[] = {
    {"the first that runs", .says = "cudnn:fwd engine #"},
    {"one fails", .fault = "#@fwd:fails"},
    {"all fail", .fault = "any@fwd:fails", .says = "every plan for 'fake GPU sm90 "},
    {"one fails as plans are timed", .fault = "#@fwd:fails", .plans = 4},
    {NULL, .plans = 4}, /* the stored choice, although the engine runs now */
    {"one breaks the GPU", .fault = "#@fwd:sticky",
     .says = "engine # of cuDNN broke the GPU as it was timed for 'fake GPU sm90 "},
    {NULL, .fault = "#@fwd:sticky"},
    {NULL, .fault = "#@fwd:sticky", .channels = 32},
    {NULL, .bf16 = true, .says = "cudnn:fwd engine #"},
    {"a fused form is wrong", .fault = "any@bn:wrong", .fused = true,
     .says = "of cuDNN computes wrong values for 'fake GPU sm90 "},
    {NULL, .fused = true, .says = "cuDNN computed wrong values for 'fake GPU sm90 "},
    {NULL, .fused = true, .channels = 32, .says = "cudnn:dgrad+drelu+bn engine "},
    {NULL, .says = "cudnn:fwd engine #"},
    {"a fused form fails", .fault = "any@bn:fails", .fused = true, .says = "every plan for '"},
    {NULL, .fused = true, .says = "cudnn:dgrad+drelu+bn engine "},
    {"a fused form does not exist", .fused = true, .bf16 = true, .says = "no plan"},
    {NULL, .fused = true, .bf16 = true, .says = "no plan"},
    {"the user excludes engines", .says = "cudnn:fwd engine #"},
    {NULL, .without = "#"},
    {NULL, .without = "0,1,2,3,4,5,7,8", .says = "cudnn:fwd engine 6"}, /* compiled at run time */
    {NULL, .without = "0,1,2,3,4,5,6,7,8", .fused = true, .says = "no plan"},
    {NULL, .fused = true, .says = "cudnn:dgrad+drelu+bn engine "},
};

/* Copies `text` with the number of the engine in place of '#'. */
static const char *with_engine(const char *text, const char *engine, char out[160])
{
    const char *at = text ? strchr(text, '#') : NULL;
    if (!at)
        return text ? text : "";
    snprintf(out, 160, "%.*s%s%s", (int)(at - text), text, engine, at + 1);
    return out;
}

static void run_process(const struct process *p, const char *engine, char line[1024])
{
    char command[PATH_MAX + 80], text[160];
    assert_int_equal(setenv("AMPSCALE_FAKE_ENGINE", with_engine(p->fault, engine, text), 1), 0);
    assert_int_equal(setenv("AMPSCALE_CUDNN_WITHOUT", with_engine(p->without, engine, text), 1), 0);
    snprintf(command, sizeof command, "'%s' engines %s %s %d %d", program,
             p->fused ? "fused" : "fwd", p->bf16 ? "bf16" : "fp16", p->channels ? p->channels : 16,
             p->plans ? p->plans : 1);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    line[0] = '\0';
    assert_non_null(fgets(line, 1024, f));
    assert_int_equal(pclose(f), 0);
}

static void forget(void)
{
    unlink(file);
    unlink(journal);
}

static void processes_avoid_engines_that_do_not_work(void **state)
{
    const char *story = NULL;
    char line[1024], engine[16] = "", text[160], own[40];
    for (int i = 0; i < COUNT(processes); i++) {
        const struct process *p = &processes[i];
        if (p->story) {
            story = p->story;
            forget();
        }
        run_process(p, engine, line);
        if (i == 0)
            assert_int_equal(sscanf(line, "cudnn:fwd engine %15[0-9]", engine), 1);
        snprintf(own, sizeof own, "cudnn:fwd engine %s\n", engine);
        bool right = p->says
                         ? strstr(line, with_engine(p->says, engine, text)) != NULL
                         : strncmp(line, "cudnn:fwd engine ", 17) == 0 && strcmp(line, own) != 0;
        if (!right)
            fail_msg("%s, process %d: %s", story, i, line);
    }
}

static void the_users_list_is_read_strictly(void **state)
{
    static const char many[] = /* 33; 32 are allowed */
        "7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7";
    static const char *const wrong[] = {" ",     ",",  "62,", ",62", "62,,63",     "62 63", "two",
                                        "62, 3", "-1", "0x1", "6x",  "1000000000", "62;63", many};
    char line[1024], quoted[128];
    forget();
    for (int i = 0; i < COUNT(wrong); i++) {
        run_process(&(struct process){.without = wrong[i]}, "", line);
        snprintf(quoted, sizeof quoted, "AMPSCALE_CUDNN_WITHOUT is '%s'; give ", wrong[i]);
        assert_non_null(strstr(line, quoted));
    }
    run_process(&(struct process){.without = many + 2}, "", line);
    assert_memory_equal(line, "cudnn:fwd engine ", 17);
}

/* Entries that cannot be used, and lines of the journal that are no keys of engines, are ignored.
 */
static void useless_facts_are_ignored(void **state)
{
    const struct plan_choice facts[] = {{.engine = 99, .nanoseconds = 1},
                                        {.fact = PLAN_TIMED, .nanoseconds = 1},
                                        {.fact = PLAN_LACKING}};
    const struct process p = {.plans = 4};
    char line[1024], *bytes;
    size_t size;
    forget();
    run_process(&p, "", line);
    expect_ok(file_read(file, 1 << 20, &bytes, &size));
    const char *key = strstr(bytes, "fake GPU ");
    *strchr(key, '\n') = '\0';
    for (int i = 0; i < 3; i++) {
        struct plan_cache *cache;
        expect_ok(plan_cache_open(&cache));
        expect_ok(plan_cache_put(cache, key, &facts[i]));
        expect_ok(plan_cache_save(cache, file));
        plan_cache_close(cache);
        expect_ok(file_replace(journal, "\n\x01 without engine 1\nno key\n", 28));
        run_process(&p, "", line);
        assert_memory_equal(line, "cudnn:fwd engine ", 17);
        expect_ok(plan_cache_open(&cache));
        expect_ok(plan_cache_load(cache, file)); /* has the new choice for the next process */
        const struct plan_choice *choice = plan_cache_find(cache, key);
        assert_true(choice && choice->fact == PLAN_CHOSEN && choice->engine != 99);
        plan_cache_close(cache);
    }
    free(bytes);
}

/* --- matrix products --- */

/* Returns the key of the one product whose time is in the file. */
static char *key_of_product(void)
{
    char *text, *key = NULL;
    size_t size;
    expect_ok(file_read(file, 1 << 20, &text, &size));
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
    expect_ok(plan_cache_open(&cache));
    expect_ok(plan_cache_load(cache, file));
    if (nanoseconds > 0) {
        expect_ok(plan_cache_put(cache, key, &fact));
        expect_ok(plan_cache_save(cache, file));
    }
    int64_t stored = plan_cache_find(cache, key)->nanoseconds;
    plan_cache_close(cache);
    return stored;
}

/* Opens the GPU, as a new process does, and plans a convolution on it. */
static void expect(enum op_kind kind, int plans, bool deterministic, const char *impl)
{
    const struct conv_shape shape = {2, 64, 8, 8, 64, {1, 1}, {1, 1}, {0, 0}, 1};
    struct op_desc d = describe_conv(kind, &shape, 0);
    struct device *dev;
    expect_ok(device_open("cuda:0", 1, &dev));
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d.t[r].ndim == 4)
            d.t[r].layout = LAYOUT_ANY;
    struct op_plan *plan;
    dev->plans = plans;
    dev->deterministic = deterministic;
    expect_ok(op_plan(dev, &d, &plan));
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
    free(once);
    free(key);
}

static int set_up(void **state)
{
    if (scratch_set_up(state) != 0 || setenv("XDG_CACHE_HOME", *state, 1) != 0 ||
        readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return -1;
    snprintf(file, sizeof file, "%s/ampscale/plans", (const char *)*state);
    snprintf(journal, sizeof journal, "%s.broken", file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_avoid_engines_that_do_not_work),
        cmocka_unit_test(the_users_list_is_read_strictly),
        cmocka_unit_test(useless_facts_are_ignored),
        cmocka_unit_test(the_stored_times_decide),
        cmocka_unit_test(few_plans_are_timed),
    };
    return suite_argc > 4 ? plan_here() : cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
