/* Tests training configurations: learning rates compared with PyTorch's schedulers, refused values,
 * and the record of a configuration. */
#include "runners/settings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Both sides compute in double, but PyTorch computes some rates recursively. */
static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-13 * fabs(want)))
        fail_msg("%.17g is not %.17g", got, want);
}

/* Checks that the rates of steps 0, 1, ... are `want`. */
static void assert_rates(const struct train_config *c, int64_t steps_per_epoch, const double *want,
                         int n)
{
    for (int i = 0; i < n; i++)
        assert_near(train_config_lr(c, i, steps_per_epoch), want[i]);
}

/* torch.optim.lr_scheduler.StepLR(step_size=2, gamma=0.1), stepped once an epoch. */
static void step_follows_torch(void **state)
{
    (void)state;
    static const double want[] = {0.1,
                                  0.1,
                                  0.010000000000000002,
                                  0.010000000000000002,
                                  0.0010000000000000002,
                                  0.0010000000000000002,
                                  0.00010000000000000003};
    struct train_config c = train_config_default();
    c.epochs = 7;
    c.lr_step = 2;
    assert_rates(&c, 1, want, 7);
    for (int epoch = 0; epoch < 7; epoch++)
        for (int step = 0; step < 5; step++)
            assert_near(train_config_lr(&c, epoch * 5 + step, 5), want[epoch]);
}

/* StepLR(step_size=3, gamma=0.5), with a first rate of 0.4. */
static void step_takes_its_factor(void **state)
{
    (void)state;
    static const double want[] = {0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1};
    struct train_config c = train_config_default();
    c.lr = 0.4;
    c.lr_step = 3;
    c.lr_gamma = 0.5;
    assert_rates(&c, 1, want, 7);
}

/* MultiStepLR(milestones=[2, 3, 5], gamma=0.1), stepped once an epoch. */
static void milestones_follow_torch(void **state)
{
    (void)state;
    static const double want[] = {0.1, 0.1, 0.01, 0.001, 0.001, 0.0001, 0.0001};
    struct train_config c = train_config_default();
    c.epochs = 7;
    c.lr_milestones = "2,3,5";
    for (int step = 0; step < 14; step++)
        assert_near(train_config_lr(&c, step, 2), want[step / 2]);
    static const char *const wrong[] = {"", "3,2", "2,2", "0", "2,", ",2", "2;3", "2.5", "9999999"};
    c.dummy = true;
    assert_int_equal(train_config_check(&c), STATUS_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.lr_milestones = wrong[i];
        assert_int_equal(train_config_check(&c), STATUS_USAGE);
        assert_non_null(strstr(status_message(), "--lr-milestones"));
    }
}

/* PyTorch's values. torch_schedules.py printed them with PyTorch 2.15, and explains them. */
static void rates_are_those_of_pytorch(void **state)
{
    (void)state;
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
    (void)state;
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

/* PolynomialLR(total_iters=10, power=2), stepped once a step; and MLPerf's variant, which ends at
 * 1e-4. */
static void polynomial_follows_torch(void **state)
{
    (void)state;
    static const double want[] = {0.1,   0.081, 0.064, 0.049, 0.036,
                                  0.025, 0.016, 0.009, 0.004, 0.001};
    struct train_config c = train_config_default();
    c.epochs = 5;
    c.schedule = SCHEDULE_POLY;
    assert_rates(&c, 2, want, 10);
    c.lr_power = 1;
    for (int step = 0; step < 10; step++)
        assert_near(train_config_lr(&c, step, 2), 0.1 * (10 - step) / 10);
    c.lr_power = 0;
    c.lr_end = 1e-4;
    c.warmup_epochs = 1;
    for (int step = 2; step < 10; step++) {
        double left = 1 - (step - 2) / 8.0;
        assert_near(train_config_lr(&c, step, 2), (0.1 - 1e-4) * left * left + 1e-4);
    }
}

/* The defaults are those of pytorch/examples' imagenet: a learning rate of 0.1, and a factor of 0.1
 * every 30 epochs. */
static void defaults_are_those_of_the_example(void **state)
{
    (void)state;
    struct train_config c = train_config_default();
    assert_near(train_config_lr(&c, 30 * 5005 - 1, 5005), 0.1);
    assert_near(train_config_lr(&c, 30 * 5005, 5005), 0.01);
    assert_near(train_config_lr(&c, 90 * 5005 - 1, 5005), 0.001);
}

/* CosineAnnealingLR(T_max=10), stepped once a step: 5 epochs of 2 steps. */
static void cosine_follows_torch(void **state)
{
    (void)state;
    static const double want[] = {0.1,
                                  0.09755282581475769,
                                  0.09045084971874738,
                                  0.07938926261462367,
                                  0.06545084971874739,
                                  0.05000000000000001,
                                  0.03454915028125264,
                                  0.020610737385376353,
                                  0.009549150281252635,
                                  0.002447174185242324};
    struct train_config c = train_config_default();
    c.schedule = SCHEDULE_COSINE;
    c.epochs = 5;
    assert_rates(&c, 2, want, 10);
}

/* SequentialLR(LinearLR(1/6, 1, 5), CosineAnnealingLR(14)) with the change at step 6. There are 10
 * epochs of 2 steps; the first 3 epochs are warm-up. */
static void warmup_leads_into_cosine(void **state)
{
    (void)state;
    static const double want[] = {0.03333333333333333,
                                  0.06666666666666667,
                                  0.1,
                                  0.13333333333333336,
                                  0.16666666666666669,
                                  0.2,
                                  0.2,
                                  0.19749279121818236,
                                  0.19009688679024192,
                                  0.178183148246803,
                                  0.16234898018587338,
                                  0.14338837391175582,
                                  0.12225209339563145,
                                  0.1,
                                  0.07774790660436857,
                                  0.0566116260882442,
                                  0.037651019814126656,
                                  0.021816851753197055,
                                  0.009903113209758096};
    struct train_config c = train_config_default();
    c.schedule = SCHEDULE_COSINE;
    c.lr = 0.2;
    c.epochs = 10;
    c.warmup_epochs = 3;
    assert_rates(&c, 2, want, 19);
}

static void warmup_leads_into_the_other_schedules(void **state)
{
    (void)state;
    static const double want[] = {0.05, 0.1, 0.15, 0.2, 0.2, 0.2, 0.02};
    struct train_config c = train_config_default();
    c.lr = 0.2;
    c.warmup_epochs = 2;
    c.lr_step = 3;
    assert_rates(&c, 2, want, 7);
    c.schedule = SCHEDULE_CONSTANT;
    assert_rates(&c, 2, want, 6);
    assert_near(train_config_lr(&c, 1000, 2), 0.2);
    c.warmup_epochs = 1.25; /* ends within a step */
    assert_near(train_config_lr(&c, 1, 2), 0.2 * 2 / 2.5);
    assert_near(train_config_lr(&c, 2, 2), 0.2);
}

/* The cosine schedule must not divide by 0 if warm-up lasts to the end of the run, or for steps
 * after the end of the run. */
static void rates_stay_finite(void **state)
{
    (void)state;
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

static void assert_refused(const struct train_config *c, const char *flag)
{
    assert_int_equal(train_config_check(c), STATUS_USAGE);
    if (!strstr(status_message(), flag))
        fail_msg("'%s' does not name %s", status_message(), flag);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    struct train_config c = train_config_default();
    assert_refused(&c, "--dummy"); /* neither data nor --dummy */
    c.dummy = true;
    assert_int_equal(train_config_check(&c), STATUS_OK);
    c.data = "imagenet";
    assert_refused(&c, "'imagenet'"); /* data and --dummy together */
    c.dummy = false;
    assert_int_equal(train_config_check(&c), STATUS_OK);

    c.evaluate = true;
    assert_refused(&c, "--init"); /* no weights to evaluate */
    c.init = "weights.safetensors";
    assert_int_equal(train_config_check(&c), STATUS_OK);
    c.resume = "checkpoint.safetensors";
    assert_refused(&c, "--resume"); /* two sources of weights */
    c.evaluate = false;
    assert_refused(&c, "--resume");
    c.init = NULL;
    assert_int_equal(train_config_check(&c), STATUS_OK);

    c.epochs = 3;
    c.warmup_epochs = 3;
    assert_int_equal(train_config_check(&c), STATUS_OK);
    c.warmup_epochs = 3.5;
    assert_refused(&c, "--warmup-epochs");
    c.warmup_epochs = 0;

    c.training_only = true;
    c.val_every = 2;
    assert_refused(&c, "--val-every");
    c.training_only = false;
    c.no_checkpoint = true;
    assert_int_equal(train_config_check(&c), STATUS_OK);
    c.keep_checkpoints = 2;
    assert_refused(&c, "--keep-checkpoints");
    c.no_checkpoint = false;
    c.schedule = SCHEDULE_COSINE;
    c.lr_milestones = "30";
    assert_refused(&c, "--lr-milestones");
    c.lr_milestones = NULL;
    c.lars = 0.001;
    c.clip_grad_norm = 1;
    assert_refused(&c, "--clip-grad-norm");
}

/* The record has every setting with its name and value. */
static void the_record_holds_every_setting(void **state)
{
    (void)state;
    struct train_config c = train_config_default();
    c.data = "imagenet";
    c.arch = "vgg11";
    c.val_batch = 0;
    c.batch = 48;
    c.seed = 9007199254740992; /* the largest value that --seed accepts */
    c.label_smoothing = 0.1;
    c.schedule = SCHEDULE_COSINE;
    c.accumulate = 3;
    c.grad_compress = DTYPE_BF16;
    c.dp_reduce = DP_ALL;
    const struct train_setting setting = {.mode = MODE_DDP2,
                                          .ranks = 4,
                                          .devices = 2,
                                          .classes = 17,
                                          .epoch_steps = 99,
                                          .fuse = FUSE_STATS,
                                          .comm = "joint"};
    json_t *j;
    assert_int_equal(train_config_json(&c, &setting, 0, &j), STATUS_OK);
    assert_string_equal(json_string_value(json_object_get(j, "data")), "imagenet");
    assert_string_equal(json_string_value(json_object_get(j, "arch")), "vgg11");
    assert_string_equal(json_string_value(json_object_get(j, "lr_schedule")), "cosine");
    assert_string_equal(json_string_value(json_object_get(j, "resume")), "");
    assert_true(json_is_null(json_object_get(j, "init")));
    assert_int_equal(json_integer_value(json_object_get(j, "classes")), 17);
    assert_int_equal(json_integer_value(json_object_get(j, "epoch_steps")), 99);
    assert_string_equal(json_string_value(json_object_get(j, "mode")), "ddp2");
    assert_int_equal(json_integer_value(json_object_get(j, "world_size")), 4);
    assert_int_equal(json_integer_value(json_object_get(j, "devices_per_rank")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "accumulate")), 3);
    assert_string_equal(json_string_value(json_object_get(j, "grad_compress")), "bf16");
    assert_string_equal(json_string_value(json_object_get(j, "comm")), "joint");
    assert_string_equal(json_string_value(json_object_get(j, "dp_reduce")), "all");
    assert_string_equal(json_string_value(json_object_get(j, "fuse")), "stats");
    assert_int_equal(json_integer_value(json_object_get(j, "batch_size")), 48);
    assert_int_equal(json_integer_value(json_object_get(j, "val_batch_size")), 48);
    assert_int_equal(json_integer_value(json_object_get(j, "seed")), 9007199254740992);
    assert_int_equal(json_integer_value(json_object_get(j, "dummy_train")), 1281167);
    assert_true(json_real_value(json_object_get(j, "label_smoothing")) == 0.1);
    assert_true(json_is_false(json_object_get(j, "nesterov")));
    assert_string_equal(json_string_value(json_object_get(j, "precision")), "fp32");
    assert_true(json_is_false(json_object_get(j, "emulated"))); /* fp32 needs no emulation */
    json_decref(j);
}

/* Each default is a valid value of its setting. No flag, letter or key occurs twice. */
static void rows_of_the_table_are_sound(void **state)
{
    (void)state;
    struct train_config c = train_config_default();
    const struct scaler_rule scaler = scaler_default();
    char a[64], b[64];
    assert_int_equal(settings_default(train_settings, &c), STATUS_OK);
    assert_int_equal(settings_default(train_unrecorded, &c), STATUS_OK);
    assert_int_equal(c.scaler.dynamic, scaler.dynamic);
    assert_int_equal(c.scaler.interval, scaler.interval);
    assert_true(c.scaler.init == scaler.init && c.scaler.growth == scaler.growth &&
                c.scaler.backoff == scaler.backoff && c.scaler.max == scaler.max &&
                c.scaler.min == scaler.min);
    assert_int_equal(c.dummy_train, 1281167);
    assert_int_equal(c.seed, 0);
    assert_true(c.weight_decay == 1e-4 && c.telemetry == 1 && c.comm_timeout == 300);
    for (const struct setting *s = train_settings; !setting_is_end(s); s++) {
        for (const struct setting *t = train_settings; t < s; t++) {
            const char *key = setting_key(s, a);
            if (*key && strcmp(key, setting_key(t, b)) == 0)
                fail_msg("'%s' is recorded twice", key);
            assert_false(s->letter && s->letter == t->letter);
        }
        for (const struct setting *t = train_unrecorded; !setting_is_end(t); t++) {
            assert_false(s->flag && t->flag && strcmp(s->flag, t->flag) == 0);
            assert_false(s->letter && s->letter == t->letter);
        }
    }
}

/* Settings that may differ between ranks (TRAIN_PRIVATE) can be omitted from the JSON object.
 * train_key_is_neutral is true for settings that do not affect the results. */
static void traits_leave_settings_out(void **state)
{
    (void)state;
    struct train_config c = train_config_default();
    const struct train_setting setting = {.mode = MODE_ND, .ranks = 1, .devices = 1};
    json_t *j;
    assert_int_equal(train_config_json(&c, &setting, TRAIN_PRIVATE, &j), STATUS_OK);
    assert_null(json_object_get(j, "workers"));
    assert_null(json_object_get(j, "devices"));
    assert_non_null(json_object_get(j, "telemetry"));
    assert_null(json_object_get(j, "check_replicas")); /* 0 */
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
    (void)state;
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
        cmocka_unit_test(step_follows_torch),
        cmocka_unit_test(step_takes_its_factor),
        cmocka_unit_test(defaults_are_those_of_the_example),
        cmocka_unit_test(milestones_follow_torch),
        cmocka_unit_test(rates_are_those_of_pytorch),
        cmocka_unit_test(apex_schedule),
        cmocka_unit_test(polynomial_follows_torch),
        cmocka_unit_test(cosine_follows_torch),
        cmocka_unit_test(warmup_leads_into_cosine),
        cmocka_unit_test(warmup_leads_into_the_other_schedules),
        cmocka_unit_test(rates_stay_finite),
        cmocka_unit_test(rates_grow_with_the_step),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(the_record_holds_every_setting),
        cmocka_unit_test(rows_of_the_table_are_sound),
        cmocka_unit_test(traits_leave_settings_out),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
