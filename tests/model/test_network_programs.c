/* Tests the programs of one network: training at two batch sizes and evaluation share weights,
 * statistics and momentum, and nothing else. */
#include "net_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARCH "resnet8"

enum { CLASSES = 10, SIZE = 16, BATCH = 4, REST = 3, VAL = 2 };

static const struct program_config configs[] = {
    {.batch = BATCH, .train = true, .float_input = true, .momentum = 0.9f, .weight_decay = 1e-2f},
    {.batch = REST, .train = true, .float_input = true, .momentum = 0.9f, .weight_decay = 1e-2f},
    {.batch = VAL, .float_input = true},
};
enum { TRAIN, TAIL, EVAL, N_PROGRAMS };

static void run_phases(struct program *p, const struct step_state *state, enum phase last)
{
    assert_ok(program_state(p, state));
    for (int phase = PHASE_INPUT; phase <= (int)last; phase++)
        assert_ok(program_run(p, (enum phase)phase));
    assert_ok(program_wait(p));
}

/* One optimizer step on batch `step`. */
static void train(struct net_rig *r, struct program *p, int step)
{
    const struct step_state state = {
        .step = (uint64_t)step, .lr = 0.05f, .loss_scale = 1, .grad_scale = 1};
    net_rig_input(r, p, step);
    run_phases(p, &state, PHASE_UPDATE);
}

/* The logits and the loss of an evaluation of batch `step`. */
static double evaluate(struct net_rig *r, struct program *p, int step, float logits[VAL * CLASSES])
{
    const struct step_state state = {.loss_scale = 1, .grad_scale = 1};
    struct loss_metrics m;
    net_rig_input(r, p, step);
    run_phases(p, &state, PHASE_LOSS);
    assert_ok(program_metrics(p, &m));
    assert_ok(program_logits(p, logits));
    return m.loss_sum;
}

static void copy_values(const struct net_rig *from, struct net_rig *to, enum param_value v)
{
    for (int i = 0; i < from->graph->n_params; i++) {
        if (v == VALUE_MOMENTUM && !param_is_trained(&from->graph->param[i]))
            continue;
        float *plain = net_rig_get(from, v, i);
        assert_ok(network_set(to->net, v, i, plain));
        free(plain);
    }
}

/* The largest difference of two networks in a weight, statistic or momentum, as a fraction of the
 * largest value of the same parameter. */
static double difference(const struct net_rig *a, const struct net_rig *b, enum param_value v)
{
    double worst = 0;
    for (int i = 0; i < a->graph->n_params; i++) {
        const struct param *p = &a->graph->param[i];
        if (v == VALUE_MOMENTUM && !param_is_trained(p))
            continue;
        float *x = net_rig_get(a, v, i), *y = net_rig_get(b, v, i);
        double most = 0, off = 0;
        for (int64_t k = 0; k < param_count(p); k++) {
            assert_true(isfinite(x[k]) && isfinite(y[k]));
            most = fmax(most, fabs((double)x[k]));
            off = fmax(off, fabs((double)x[k] - (double)y[k]));
        }
        worst = off > 0 ? fmax(worst, off / most) : worst;
        free(x);
        free(y);
    }
    return worst;
}

/* Trains a full batch and a smaller batch, and evaluates. Does the same with a separate network for
 * each program, and copies all values from network to network. The results must agree. */
static void compare_with_separate_networks(const char *device, double tolerance)
{
    struct net_rig all, one[N_PROGRAMS];
    float got[VAL * CLASSES], want[VAL * CLASSES];
    net_rig_open(&all, device, ARCH, CLASSES, SIZE, configs, N_PROGRAMS);
    net_rig_fill(&all);
    for (int k = 0; k < N_PROGRAMS; k++)
        net_rig_open(&one[k], device, ARCH, CLASSES, SIZE, &configs[k], 1);
    net_rig_fill(&one[TRAIN]);

    for (int round = 0; round < 2; round++) { /* round 1 begins with momentum */
        train(&all, network_program(all.net, TRAIN), 2 * round);
        train(&all, network_program(all.net, TAIL), 2 * round + 1);
        double loss = evaluate(&all, network_program(all.net, EVAL), 9, got);

        train(&one[TRAIN], network_program(one[TRAIN].net, 0), 2 * round);
        copy_values(&one[TRAIN], &one[TAIL], VALUE_WEIGHT);
        copy_values(&one[TRAIN], &one[TAIL], VALUE_MOMENTUM);
        train(&one[TAIL], network_program(one[TAIL].net, 0), 2 * round + 1);
        copy_values(&one[TAIL], &one[EVAL], VALUE_WEIGHT);
        double loss_one = evaluate(&one[EVAL], network_program(one[EVAL].net, 0), 9, want);
        copy_values(&one[TAIL], &one[TRAIN], VALUE_WEIGHT);
        copy_values(&one[TAIL], &one[TRAIN], VALUE_MOMENTUM);

        assert_true(difference(&all, &one[TAIL], VALUE_WEIGHT) <= tolerance);
        assert_true(difference(&all, &one[TAIL], VALUE_MOMENTUM) <= tolerance);
        assert_true(fabs(loss - loss_one) <= tolerance * fabs(loss_one));
        for (int i = 0; i < VAL * CLASSES; i++)
            assert_true(fabsf(got[i] - want[i]) <= (float)tolerance * (1 + fabsf(want[i])));
    }
    for (int k = 0; k < N_PROGRAMS; k++)
        net_rig_close(&one[k]);
    net_rig_close(&all);
}

static void programs_share_parameters_on_ref(void **state)
{
    (void)state;
    compare_with_separate_networks("ref", 0);
}

/* In a separate network, a program may choose another layout of weights and another order of sums.
 * The results may therefore differ slightly. */
static void programs_share_parameters_on_cpu(void **state)
{
    (void)state;
    compare_with_separate_networks("cpu", 1e-4);
}

static void set_param(struct net_rig *r, const char *suffix, float value)
{
    for (int i = 0; i < r->graph->n_params; i++) {
        const struct param *p = &r->graph->param[i];
        size_t n = strlen(p->name), m = strlen(suffix);
        if (n < m || strcmp(p->name + n - m, suffix) != 0)
            continue;
        float *plain = malloc((size_t)param_count(p) * sizeof *plain);
        assert_non_null(plain);
        for (int64_t k = 0; k < param_count(p); k++)
            plain[k] = value;
        assert_ok(network_set(r->net, VALUE_WEIGHT, i, plain));
        free(plain);
    }
}

/* Training normalises by the statistics of the batch, and updates the running statistics.
 * Evaluation uses the running statistics, and does not change them. */
static void evaluation_uses_running_statistics(void **state)
{
    (void)state;
    struct net_rig r, before;
    float first[VAL * CLASSES], second[VAL * CLASSES];
    net_rig_open(&r, "cpu", ARCH, CLASSES, SIZE, configs, N_PROGRAMS);
    net_rig_open(&before, "cpu", ARCH, CLASSES, SIZE, configs, N_PROGRAMS);
    struct program *eval = network_program(r.net, EVAL);
    net_rig_fill(&r);
    copy_values(&r, &before, VALUE_WEIGHT);
    evaluate(&r, eval, 0, first);
    evaluate(&r, eval, 0, second);
    assert_memory_equal(first, second, sizeof first);
    assert_true(difference(&r, &before, VALUE_WEIGHT) == 0);

    /* A training step with a learning rate of 0 also updates the statistics. */
    const struct step_state no_step = {.lr = 0, .loss_scale = 1, .grad_scale = 1};
    struct program *train_program = network_program(r.net, TRAIN);
    struct loss_metrics m, again;
    net_rig_input(&r, train_program, 0);
    run_phases(train_program, &no_step, PHASE_UPDATE);
    assert_ok(program_metrics(train_program, &m));
    evaluate(&r, eval, 0, second);
    assert_true(memcmp(first, second, sizeof first) != 0);

    /* Setting the statistics changes the results of evaluation, and not those of training. */
    set_param(&r, "running_var", 4);
    set_param(&r, "running_mean", 1);
    evaluate(&r, eval, 0, first);
    assert_true(memcmp(first, second, sizeof first) != 0);
    net_rig_input(&r, train_program, 0);
    run_phases(train_program, &no_step, PHASE_LOSS);
    assert_ok(program_metrics(train_program, &again));
    assert_true(m.loss_sum == again.loss_sum);
    net_rig_close(&before);
    net_rig_close(&r);
}

/* A row without a label affects neither loss nor gradients. A batch can therefore be padded with
 * any images. */
static void rows_without_label_do_not_count(void **state)
{
    (void)state;
    static float images[VAL * 3 * SIZE * SIZE];
    const struct step_state s = {.loss_scale = 1, .grad_scale = 1};
    struct net_rig r;
    struct loss_metrics both, first;
    net_rig_open(&r, "cpu", ARCH, CLASSES, SIZE, configs, N_PROGRAMS);
    net_rig_fill(&r);
    struct program *p = network_program(r.net, EVAL);
    for (int i = 0; i < VAL * 3 * SIZE * SIZE; i++)
        images[i] = (float)(i % 7) - 3;
    assert_ok(program_input(p, images, (const int32_t[]){4, 4}));
    run_phases(p, &s, PHASE_LOSS);
    assert_ok(program_metrics(p, &both));
    assert_ok(program_input(p, images, (const int32_t[]){4, -1}));
    run_phases(p, &s, PHASE_LOSS);
    assert_ok(program_metrics(p, &first));
    assert_int_equal(both.count, 2);
    assert_int_equal(first.count, 1);
    assert_true(first.loss_sum > 0 && first.loss_sum < both.loss_sum);
    net_rig_close(&r);
}

/* Statistics have neither gradients nor momentum. network_get and network_set refuse them. */
static void statistics_have_no_gradient(void **state)
{
    (void)state;
    struct net_rig r;
    float plain[64];
    net_rig_open(&r, "cpu", ARCH, CLASSES, SIZE, configs, N_PROGRAMS);
    for (int i = 0; i < r.graph->n_params; i++) {
        if (param_is_trained(&r.graph->param[i]))
            continue;
        assert_int_equal(network_get(r.net, VALUE_GRADIENT, i, plain), STATUS_INVALID);
        assert_non_null(strstr(status_message(), r.graph->param[i].name));
        assert_int_equal(network_set(r.net, VALUE_MOMENTUM, i, plain), STATUS_INVALID);
    }
    net_rig_close(&r);
}

/* Initial weights depend only on the seed, not on device or layout. */
static void initial_weights_are_a_function_of_the_seed(void **state)
{
    (void)state;
    struct net_rig a, b;
    net_rig_open(&a, "cpu", ARCH, CLASSES, SIZE, configs, N_PROGRAMS);
    net_rig_open(&b, "ref", ARCH, CLASSES, SIZE, configs, 1);
    assert_ok(network_init(a.net, 7));
    assert_ok(network_init(b.net, 7));
    assert_true(difference(&a, &b, VALUE_WEIGHT) == 0);
    assert_ok(network_init(b.net, 8));
    assert_true(difference(&a, &b, VALUE_WEIGHT) > 0.1);
    net_rig_close(&a);
    net_rig_close(&b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_share_parameters_on_ref),
        cmocka_unit_test(programs_share_parameters_on_cpu),
        cmocka_unit_test(evaluation_uses_running_statistics),
        cmocka_unit_test(rows_without_label_do_not_count),
        cmocka_unit_test(statistics_have_no_gradient),
        cmocka_unit_test(initial_weights_are_a_function_of_the_seed),
    };
    return cmocka_run_group_tests_name("network_programs", tests, NULL, NULL);
}
