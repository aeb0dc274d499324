/* Compares the loss scaler with tables written by hand. A table lists the scale and the numbers of
 * clean and of skipped steps after a sequence of overflows. */
#include "engine/scaler.h"
#include "tests/unit.h"

#include <string.h>

static void assert_state(const struct scaler_state *s, double scale, int64_t clean, int64_t skipped)
{
    if (s->scale != scale || s->clean != clean || s->skipped != skipped)
        fail_msg("scale %g, %lld clean, %lld skipped instead of %g, %lld, %lld", s->scale,
                 (long long)s->clean, (long long)s->skipped, scale, (long long)clean,
                 (long long)skipped);
}

/* Executes `n` steps. If `found_inf` is true, every step overflows. No step may end the run. */
static void repeat(const struct scaler_rule *c, struct scaler_state *s, int n, bool found_inf)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(scaler_update(c, s, found_inf), STATUS_OK);
}

static void test_defaults(void **state)
{
    const struct scaler_rule c = scaler_default();
    assert_true(c.dynamic && c.init == 65536 && c.growth == 2 && c.backoff == 0.5);
    assert_true(c.interval == 2000 && c.max == 0x1p24 && c.min == 1);
}

static void test_collapse(void **state)
{
    const struct scaler_rule c = scaler_default();
    struct scaler_state s = scaler_begin(&c);
    repeat(&c, &s, 16, true);
    assert_state(&s, 1, 0, 16);
    assert_int_equal(scaler_update(&c, &s, true), STATUS_DIVERGED);
    assert_state(&s, 1, 0, 17); /* the step that ends the run counts as skipped */
    assert_non_null(strstr(status_message(), "the loss scale has collapsed"));
    assert_non_null(strstr(status_message(), "17 steps were skipped"));
}

/* `steps` has one character for each step: . for a clean step, X for an overflow. The last step
 * returns `st`. */
struct sequence {
    double init, growth, backoff;
    int64_t interval; /* 0: a static scale */
    double max, min;
    const char *steps;
    struct scaler_state end;
    enum status st;
};

static void test_sequences(void **state)
{
    static const struct sequence table[] = {
        {1024, 2, 0.5, 3, 4096, 1, "", {1024, 0, 0}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 1, "..", {1024, 2, 0}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 1, "...", {2048, 0, 0}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 1, "..X..", {512, 2, 1}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 1, "...X", {1024, 0, 1}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 1, "..X..X..", {256, 2, 2}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 1, "..........", {4096, 1, 0}, STATUS_OK},
        {1024, 2, 0.5, 1, 4096, 1, "..X.X.", {4096, 0, 2}, STATUS_OK},
        /* the scale grows at most to the upper limit */
        {1000, 3, 0.5, 1, 4096, 1, "..", {4096, 0, 0}, STATUS_OK},
        {1000, 3, 0.5, 1, 4096, 1, "..X", {2048, 0, 1}, STATUS_OK},
        /* the growth factor is not the inverse of the backoff factor */
        {1024, 1.5, 0.25, 2, 1e9, 1, "....X..", {864, 0, 1}, STATUS_OK},
        {100, 10, 0.1, 2, 1e9, 1, "..X", {100, 0, 1}, STATUS_OK},
        /* the scale may equal the lower limit, but not fall below it */
        {1024, 2, 0.5, 3, 4096, 256, "XX", {256, 0, 2}, STATUS_OK},
        {1024, 2, 0.5, 3, 4096, 256, "XXX", {256, 0, 3}, STATUS_DIVERGED},
        {1024, 2, 0.5, 3, 4096, 300, "XX", {512, 0, 2}, STATUS_DIVERGED},
        {1024, 2, 0.5, 3, 4096, 256, "XX...XX", {256, 0, 4}, STATUS_DIVERGED},
        /* a static scale does not change, but steps are skipped */
        {128, 2, 0.5, 0, 4096, 128, "...XX.", {128, 1, 2}, STATUS_OK},
        {1, 2, 0.5, 3, 4096, 0x1p-3, "XXX", {0.125, 0, 3}, STATUS_OK},
        {1, 2, 0.5, 3, 4096, 0x1p-3, "XXXX", {0.125, 0, 4}, STATUS_DIVERGED},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct sequence *t = &table[i];
        struct scaler_rule c = {t->interval > 0, t->init, t->growth, t->backoff,
                                t->interval,     t->max,  t->min};
        struct scaler_state s = scaler_begin(&c);
        enum status st = STATUS_OK;
        for (const char *step = t->steps; *step; step++) {
            assert_int_equal(st, STATUS_OK);
            st = scaler_update(&c, &s, *step == 'X');
        }
        assert_int_equal(st, t->st);
        assert_state(&s, t->end.scale, t->end.clean, t->end.skipped);
    }
}

/* --- torch.cuda.amp.GradScaler --- */

/* PyTorch's rule: after an overflow, scale *= backoff_factor and the tracker is 0. After a clean
 * step the tracker grows by 1; when it reaches growth_interval, scale *= growth_factor and the
 * tracker is 0. PyTorch's scaler has no limits. In these sequences, the scale never reaches a limit
 * of ampscale's scaler. */
struct peer_step {
    bool found_inf;
    double scale;    /* get_scale() after update() */
    int64_t tracker; /* _get_growth_tracker() */
};

static void check_peer(struct scaler_rule c, const struct peer_step *step, int n)
{
    struct scaler_state s = scaler_begin(&c);
    int64_t skipped = 0;
    for (int i = 0; i < n; i++) {
        skipped += step[i].found_inf;
        assert_int_equal(scaler_update(&c, &s, step[i].found_inf), STATUS_OK);
        assert_state(&s, step[i].scale, step[i].tracker, skipped);
    }
}

static void test_grad_scaler(void **state)
{
    /* GradScaler(init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=3) */
    static const struct peer_step usual[] = {
        {false, 65536, 1}, {false, 65536, 2}, {false, 131072, 0}, {true, 65536, 0},
        {false, 65536, 1}, {false, 65536, 2}, {true, 32768, 0},   {true, 16384, 0},
        {false, 16384, 1}, {false, 16384, 2}, {false, 32768, 0},  {false, 32768, 1},
        {false, 32768, 2}, {false, 65536, 0}, {false, 65536, 1},  {true, 32768, 0},
        {false, 32768, 1}, {false, 32768, 2}, {false, 65536, 0},
    };
    /* GradScaler(init_scale=1024, growth_factor=1.5, backoff_factor=0.25, growth_interval=2) */
    static const struct peer_step odd[] = {
        {false, 1024, 1}, {false, 1536, 0}, {false, 1536, 1}, {true, 384, 0},    {false, 384, 1},
        {false, 576, 0},  {true, 144, 0},   {true, 36, 0},    {false, 36, 1},    {false, 54, 0},
        {false, 54, 1},   {false, 81, 0},   {true, 20.25, 0}, {false, 20.25, 1},
    };
    struct scaler_rule c = scaler_default();
    c.interval = 3;
    check_peer(c, usual, sizeof usual / sizeof *usual);
    c = (struct scaler_rule){true, 1024, 1.5, 0.25, 2, 1e30, 1e-30};
    check_peer(c, odd, sizeof odd / sizeof *odd);
}

/* --- resuming, and static scales --- */

/* A run may stop after any step. Resumed from its state, it must continue as if it had not been
 * interrupted. */
static void test_resume(void **state)
{
    static const char steps[] = "..X....X...........XX.........X......";
    struct scaler_rule c = scaler_default();
    c.interval = 4;
    struct scaler_state whole = scaler_begin(&c), resumed = whole;
    for (size_t i = 0; steps[i]; i++) {
        resumed = (struct scaler_state){resumed.scale, resumed.clean, resumed.skipped, 0};
        repeat(&c, &whole, 1, steps[i] == 'X');
        repeat(&c, &resumed, 1, steps[i] == 'X');
        assert_state(&resumed, whole.scale, whole.clean, whole.skipped);
    }
}

/* A run is resumed with a shorter interval. The saved number of clean steps may then exceed the
 * interval, and the next clean step increases the scale. */
static void test_resume_with_a_shorter_interval(void **state)
{
    struct scaler_rule c = scaler_default();
    struct scaler_state s = scaler_begin(&c);
    repeat(&c, &s, 500, false);
    c.interval = 100;
    repeat(&c, &s, 1, false);
    assert_state(&s, 131072, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_collapse),
        cmocka_unit_test(test_sequences), cmocka_unit_test(test_grad_scaler),
        cmocka_unit_test(test_resume),    cmocka_unit_test(test_resume_with_a_shorter_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
