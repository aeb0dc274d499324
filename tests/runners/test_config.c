/* Tests training configurations: learning rates compared with PyTorch's schedulers, refused values,
 * and the record of a configuration. */
#include "runners/settings.h"
#include "tests/unit.h"

#include <math.h>
#include <string.h>

/* Both sides compute in double, but PyTorch computes some rates recursively. */
static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-13 * fabs(want)))
        fail_msg("%.17g is not %.17g", got, want);
}

/* PyTorch 2.15's values: the learning rate that torch.optim.SGD has at each of 24 steps, 3 an
 * epoch, under MultiStepLR([2, 5, 7], 0.3) and StepLR(3, 0.5), stepped once an epoch, and
 * PolynomialLR(24, 2), PolynomialLR(24, 0.9) and CosineAnnealingLR(24), stepped once a step. */
static void rates_are_those_of_pytorch(void **state)
{
    enum { EPOCHS = 8, STEPS = 3 };
    static const struct {
        const char *name;
        double rate[EPOCHS * STEPS];
    } torch[] = {
#include "tests/runners/torch_schedules.inc"
    };
    struct train_config c[sizeof torch / sizeof *torch];
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++) {
        c[i] = train_config_default();
        c[i].lr = 0.4;
        c[i].epochs = EPOCHS;
        c[i].dummy = true;
    }
    c[0].lr_milestones = "2,5,7";
    c[0].lr_gamma = 0.3;
    c[1].lr_step = 3;
    c[1].lr_gamma = 0.5;
    c[2].schedule = c[3].schedule = SCHEDULE_POLY;
    c[3].lr_power = 0.9;
    c[4].schedule = SCHEDULE_COSINE;
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++) {
        assert_int_equal(train_config_check(&c[i]), STATUS_OK);
        for (int step = 0; step < EPOCHS * STEPS; step++) {
            double got = train_config_lr(&c[i], step, STEPS), want = torch[i].rate[step];
            if (fabs(got - want) > 1e-12 * want)
                fail_msg("%s, step %d: %.17g, PyTorch's is %.17g", torch[i].name, step, got, want);
        }
    }
}

/* The schedule of Apex's imagenet example (adjust_learning_rate of examples/imagenet/main_amp.py):
 * lr * batch * world / 256, a warm-up of 5 epochs, and a factor of 0.1 at epochs 30, 60 and 80. */
static void apex_schedule(void **state)
{
    enum { STEPS = 7 };
    struct train_config c = train_config_default();
    c.batch = 208;
    c.lr_scale = LR_SCALE_LINEAR;
    c.warmup_epochs = 5;
    c.lr_milestones = "30,60,80";
    double base = 0.1 * 208.0 * 4 / 256;
    for (int epoch = 0; epoch < 90; epoch++)
        for (int step = 0; step < STEPS; step++) {
            int factor = epoch / 30 + (epoch >= 80);
            double want = base * pow(0.1, factor);
            if (epoch < 5)
                want *= (1.0 + step + epoch * STEPS) / (5.0 * STEPS);
            double got =
                train_config_lr_factor(&c, 4) * train_config_lr(&c, epoch * STEPS + step, STEPS);
            assert_near(got, want);
        }
}

/* The defaults are those of pytorch/examples' imagenet: a learning rate of 0.1, and a factor of 0.1
 * every 30 epochs. */
static void defaults_are_those_of_the_example(void **state)
{
    struct train_config c = train_config_default();
    assert_near(train_config_lr(&c, 30 * 5005 - 1, 5005), 0.1);
    assert_near(train_config_lr(&c, 30 * 5005, 5005), 0.01);
    assert_near(train_config_lr(&c, 90 * 5005 - 1, 5005), 0.001);
}

/* Warm-up, and then each schedule, as SequentialLR(LinearLR(1/6, 1, 5), ...) changes at step 6: the
 * step schedule counts epochs from the start of the run, all others count steps from the end of
 * warm-up. MLPerf's polynomial ends at 1e-4. */
static void warmup_leads_into_each_schedule(void **state)
{
    enum { STEPS = 2, WARM = 6, LEFT = 14 };
    for (int schedule = SCHEDULE_STEP; schedule <= SCHEDULE_POLY; schedule++) {
        struct train_config c = train_config_default();
        c.schedule = (enum lr_schedule)schedule;
        c.lr = 0.2;
        c.lr_step = 4;
        c.lr_end = 1e-4;
        c.epochs = 10;
        c.warmup_epochs = 3;
        for (int step = 0; step < WARM + LEFT; step++) {
            double t = (double)(step - WARM) / LEFT;
            const double want[] = {
                [SCHEDULE_STEP] = 0.2 * pow(0.1, step / STEPS / 4),
                [SCHEDULE_COSINE] = 0.1 * (1 + cos(acos(-1) * t)),
                [SCHEDULE_CONSTANT] = 0.2,
                [SCHEDULE_POLY] = (0.2 - 1e-4) * (1 - t) * (1 - t) + 1e-4,
            };
            assert_near(train_config_lr(&c, step, STEPS),
                        step < WARM ? 0.2 * (step + 1) / WARM : want[schedule]);
        }
        c.warmup_epochs = 1.25; /* ends within a step */
        assert_near(train_config_lr(&c, 1, STEPS), 0.2 * 2 / 2.5);
        assert_true(train_config_lr(&c, 2, STEPS) <= 0.2);
    }
}

/* The cosine schedule must not divide by 0 if warm-up lasts to the end of the run, or for steps
 * after the end of the run. */
static void rates_stay_finite(void **state)
{
    struct train_config c = train_config_default();
    c.schedule = SCHEDULE_COSINE;
    c.epochs = 3;
    for (int half = 0; half <= 6; half++) {
        c.warmup_epochs = half / 2.0;
        for (int step = 0; step < 12; step++) {
            double lr = train_config_lr(&c, step, 3);
            assert_true(isfinite(lr) && lr >= 0 && lr <= c.lr);
        }
    }
}

/* Checks that the settings, changed as given, are refused with a message that names `text`. */
#define REFUSED(text, ...)                                                                         \
    do {                                                                                           \
        struct train_config c = train_config_default();                                            \
        c.dummy = true;                                                                            \
        assert_int_equal(train_config_check(&c), STATUS_OK);                                       \
        __VA_ARGS__;                                                                               \
        assert_int_equal(train_config_check(&c), STATUS_USAGE);                                    \
        if (!strstr(status_message(), text))                                                       \
            fail_msg("'%s' does not name %s", status_message(), text);                             \
    } while (0)

static void contradictions_are_refused(void **state)
{
    REFUSED("--dummy", c.dummy = false);
    REFUSED("'imagenet'", c.data = "imagenet");
    REFUSED("--init", c.evaluate = true);
    REFUSED("--resume", c.init = "weights", c.resume = "checkpoint");
    REFUSED("--resume", c.evaluate = true, c.resume = "auto");
    REFUSED("--out", c.resume = "auto");
    REFUSED("--expect", c.evaluate = true, c.init = "weights", c.expect = "run");
    REFUSED("--warmup-epochs", c.epochs = 3, c.warmup_epochs = 3.5);
    REFUSED("--dp-reduce", c.dp_reduce = DP_ALL, c.mode = MODE_DDP);
    REFUSED("--evaluate", c.training_only = true, c.evaluate = true, c.init = "weights");
    REFUSED("--val-every", c.training_only = true, c.val_every = 2);
    REFUSED("--keep-checkpoints", c.no_checkpoint = true, c.keep_checkpoints = 2);
    REFUSED("--lr-milestones", c.schedule = SCHEDULE_COSINE, c.lr_milestones = "30");
    REFUSED("--lr-end", c.schedule = SCHEDULE_POLY, c.lr_end = 1);
    REFUSED("--clip-grad-norm", c.lars = 0.001, c.clip_grad_norm = 1);
    REFUSED("loss scale", c.scaler.min = 2 * c.scaler.init);
    REFUSED("--val-crop-pct", c.val_resize = 256, c.val_crop_pct = 0.9);
    REFUSED("--decode gpu", c.decode = DECODE_GPU, c.interpolation = RESIZE_BICUBIC);
    static const char *const wrong[] = {"", "3,2", "2,2", "0", "2,", ",2", "2;3", "2.5", "9999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        REFUSED("--lr-milestones", c.lr_milestones = wrong[i]);
}

/* timm computes floor(size / crop_pct); the recorded size is what validation uses. */
static void the_crop_fraction_is_timms(void **state)
{
    static const struct {
        int size, want;
        double fraction;
    } cases[] = {{224, 256, 0.875}, {96, 109, 0.875}, {224, 235, 0.95}, {224, 248, 0.9},
                 {288, 288, 1.0},   {384, 384, 1.0},  {160, 168, 0.95}, {176, 196, 0.896}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct train_config c = train_config_default();
        c.dummy = true;
        c.image_size = cases[i].size;
        assert_int_equal(train_config_val_resize(&c), 0); /* the loader's default */
        c.val_crop_pct = cases[i].fraction;
        assert_int_equal(train_config_check(&c), STATUS_OK);
        assert_int_equal(train_config_val_resize(&c), cases[i].want);
    }
}

/* The record has the settings with their names and values. A setting that the user left open has
 * the value that resulted. */
static void the_record_holds_the_settings(void **state)
{
    struct train_config c = train_config_default();
    c.data = "imagenet";
    c.val_batch = 0;
    c.batch = 48;
    c.seed = 9007199254740992; /* the largest value that --seed accepts */
    c.label_smoothing = 0.1;
    c.grad_compress = DTYPE_BF16;
    c.dp_reduce = DP_ALL;
    c.val_crop_pct = 0.95;
    c.interpolation = RESIZE_BICUBIC;
    const struct train_setting setting = {.mode = MODE_DDP2,
                                          .ranks = 4,
                                          .devices = 2,
                                          .classes = 17,
                                          .epoch_steps = 99,
                                          .fuse = FUSE_STATS,
                                          .comm = "joint"};
    json_t *got, *value,
        *want = json_pack("{s:s, s:s, s:n, s:i, s:i, s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:i, "
                          "s:I, s:f, s:b, s:b, s:i, s:s}",
                          "data", "imagenet", "resume", "", "init", "classes", 17, "epoch_steps",
                          99, "mode", "ddp2", "world_size", 4, "devices_per_rank", 2,
                          "grad_compress", "bf16", "comm", "joint", "dp_reduce", "all", "fuse",
                          "stats", "batch_size", 48, "val_batch_size", 48, "seed",
                          (json_int_t)9007199254740992, "label_smoothing", 0.1, "nesterov", 0,
                          "emulated", 0, /* fp32 needs no emulation */
                          "val_resize", 235, "interpolation", "bicubic");
    const char *key;
    assert_non_null(want);
    assert_int_equal(train_config_json(&c, &setting, 0, &got), STATUS_OK);
    json_object_foreach(want, key, value)
    {
        if (!json_equal(json_object_get(got, key), value))
            fail_msg("the record has another value of '%s'", key);
    }
    json_decref(want);
    json_decref(got);
}

/* Each default is a valid value of its setting, and loss scaling has the scaler's own defaults. */
static void defaults_are_valid(void **state)
{
    struct train_config c = train_config_default();
    const struct scaler_rule want = scaler_default();
    assert_int_equal(settings_default(train_settings, &c), STATUS_OK);
    assert_int_equal(settings_default(train_unrecorded, &c), STATUS_OK);
    assert_true(c.scaler.dynamic == want.dynamic && c.scaler.interval == want.interval);
    assert_true(c.scaler.init == want.init && c.scaler.growth == want.growth);
    assert_true(c.scaler.backoff == want.backoff && c.scaler.max == want.max &&
                c.scaler.min == want.min);
}

/* Settings that may differ between ranks (TRAIN_PRIVATE) can be omitted from the JSON object.
 * train_key_is_neutral is true for settings that do not affect the results. */
static void traits_leave_settings_out(void **state)
{
    struct train_config c = train_config_default();
    const struct train_setting setting = {.mode = MODE_ND, .ranks = 1, .devices = 1};
    json_t *j;
    c.val_crop_pct = 0.875; /* 256, the default for 224 */
    assert_int_equal(train_config_json(&c, &setting, TRAIN_PRIVATE, &j), STATUS_OK);
    assert_null(json_object_get(j, "workers"));
    assert_null(json_object_get(j, "devices"));
    assert_non_null(json_object_get(j, "telemetry"));
    assert_null(json_object_get(j, "check_replicas")); /* 0 */
    assert_null(json_object_get(j, "val_resize"));
    assert_null(json_object_get(j, "interpolation"));
    json_decref(j);
    assert_true(train_key_is_neutral("telemetry"));
    assert_true(train_key_is_neutral("inject"));
    assert_false(train_key_is_neutral("lr"));
}

/* With LR_SCALE_LINEAR, the learning rate is multiplied by n / 256. With LR_SCALE_SQRT, it is
 * multiplied by the square root of n / 256. n is the number of images of a step, over all ranks and
 * micro-batches. */
static void rates_grow_with_the_step(void **state)
{
    struct train_config c = train_config_default();
    c.batch = 64;
    c.accumulate = 2;
    assert_int_equal(train_config_images(&c, 8), 1024);
    assert_true(train_config_lr_factor(&c, 8) == 1);
    c.lr_scale = LR_SCALE_LINEAR;
    assert_true(train_config_lr_factor(&c, 8) == 4);
    assert_true(train_config_lr_factor(&c, 1) == 0.5);
    c.lr_scale = LR_SCALE_SQRT;
    assert_true(train_config_lr_factor(&c, 8) == 2);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_pytorch),
        cmocka_unit_test(apex_schedule),
        cmocka_unit_test(defaults_are_those_of_the_example),
        cmocka_unit_test(warmup_leads_into_each_schedule),
        cmocka_unit_test(rates_stay_finite),
        cmocka_unit_test(rates_grow_with_the_step),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(the_crop_fraction_is_timms),
        cmocka_unit_test(the_record_holds_the_settings),
        cmocka_unit_test(defaults_are_valid),
        cmocka_unit_test(traits_leave_settings_out),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
