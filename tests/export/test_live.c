/* Tests the warnings of the live export if it cannot write its files. test_outcome.sh,
 * test_train_telemetry.sh and test_tensorboard.sh test the files. */
#include "../results/run_rig.h"
#include "export/live.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char tensorboard[SCRATCH_MAX + 16], prometheus[SCRATCH_MAX + 16], folder[SCRATCH_MAX + 16];
static char *warnings;
static size_t warnings_size;
static FILE *stream; /* writes the warnings */

static int set_up(void **state)
{
    run_rig_set_up(state);
    const struct run_rig *f = *state;
    snprintf(folder, sizeof folder, "%s/first", f->dir);
    snprintf(tensorboard, sizeof tensorboard, "%s/tb", f->dir);
    snprintf(prometheus, sizeof prometheus, "%s/x.prom", f->dir);
    stream = open_memstream(&warnings, &warnings_size);
    return 0;
}

static int tear_down(void **state)
{
    fclose(stream);
    free(warnings);
    return run_rig_tear_down(state);
}

static void expect_warnings(int expected)
{
    int n = 0;
    for (const char *at = warnings; at && (at = strchr(at, '\n')); at++)
        n++;
    assert_int_equal(n, expected);
}

static void test_nowhere_to_write(void **state)
{
    const struct run_rig *f = *state;
    scratch_write(f->dir, "tb", "", 0); /* a file already has the folder's name */
    snprintf(prometheus, sizeof prometheus, "%s/no/x.prom", f->dir);
    struct live *live;
    struct record *record;
    struct live_config c = {
        .tensorboard = tensorboard, .prometheus = prometheus, .warnings = stream};
    expect_ok(live_create(&c, &live));
    struct run_info info = f->info;
    info.observer = live_observer(live);
    expect_ok(record_create(folder, &info, &record));
    expect_ok(record_step(record, &(struct step_record){.images = 8, .total_s = 0.5}));
    expect_ok(record_epoch(record, &(struct epoch_record){.steps = 1, .val_images = 1}));
    expect_ok(record_close(record));
    live_free(live);
    fflush(stream);
    expect_warnings(2);
    assert_non_null(strstr(warnings, "cannot make folder '"));
    assert_non_null(strstr(warnings, "x.prom"));
}

/* Nobody reads the pipe. Writing to it would block the training. */
static void test_pipe(void **state)
{
    const struct run_rig *f = *state;
    struct live *live;
    snprintf(prometheus, sizeof prometheus, "%s/pipe", f->dir);
    assert_int_equal(mkfifo(prometheus, 0600), 0);
    struct live_config c = {.prometheus = prometheus, .warnings = stream};
    expect_ok(live_create(&c, &live));
    const struct record_observer *o = live_observer(live);
    o->begin(o->state, folder, &f->info, 0);
    o->close(o->state, true);
    live_free(live);
    fflush(stream);
    expect_warnings(1);
    assert_non_null(strstr(warnings, "pipe': not a regular file"));
}

/* A limit on the size of files acts like a full disk. The test calls the observer without a record,
 * because writing a record would fail at this limit too. */
static void test_full_disk(void **state)
{
    const struct run_rig *f = *state;
    struct rlimit old, small;
    prometheus[0] = '\0';
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct live *live;
    struct live_config c = {.tensorboard = tensorboard, .warnings = stream};
    expect_ok(live_create(&c, &live));
    const struct record_observer *o = live_observer(live);
    o->begin(o->state, folder, &f->info, 0);
    for (int64_t i = 0; i < 1000; i++)
        o->step(o->state, &(struct step_record){.step = i, .images = 8, .total_s = 0.5});
    o->epoch(o->state, &(struct epoch_record){.steps = 1000});
    o->epoch(o->state, &(struct epoch_record){.steps = 1000});
    o->close(o->state, true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    live_free(live);
    fflush(stream);
    expect_warnings(1);
    assert_non_null(strstr(warnings, "ampscale: warning: cannot write '"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nowhere_to_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pipe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
