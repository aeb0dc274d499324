/* Tests the programs of one network: training at two batch sizes and evaluation share weights,
 * statistics and momentum, and nothing else. */
#include "net_rig.h"

#include <math.h>

enum { CLASSES = 10, SIZE = 16, BATCH = 4, REST = 3, VAL = 2 };

static const struct program_config configs[] = {
    {.batch = BATCH, .train = true, .float_input = true, .momentum = 0.9f, .weight_decay = 1e-2f},
    {.batch = REST, .train = true, .float_input = true, .momentum = 0.9f, .weight_decay = 1e-2f},
    {.batch = VAL, .float_input = true},
};
enum { TRAIN, TAIL, EVAL, N_PROGRAMS };

static const struct step_state plain_state = {.loss_scale = 1, .grad_scale = 1};

static void open_all(struct net_rig *r, const char *device)
{
    net_rig_open(r, device, "resnet8", CLASSES, SIZE, configs, N_PROGRAMS);
}

/* One optimizer step on batch `step`. Returns the loss. */
static double train(struct net_rig *r, int program, int step, float lr)
{
    const struct step_state state = {
        .step = (uint64_t)step, .lr = lr, .loss_scale = 1, .grad_scale = 1};
    struct program *p = network_program(r->net, program);
    struct loss_metrics m;
    net_rig_input(r, p, step);
    net_rig_run(p, &state, PHASE_UPDATE);
    assert_ok(program_metrics(p, &m));
    return m.loss_sum;
}

/* The logits and the loss of an evaluation of batch `step`. */
static double evaluate(struct net_rig *r, int program, int step, float logits[VAL * CLASSES])
{
    struct program *p = network_program(r->net, program);
    struct loss_metrics m;
    net_rig_input(r, p, step);
    net_rig_run(p, &plain_state, PHASE_LOSS);
    assert_ok(program_metrics(p, &m));
    assert_ok(program_logits(p, logits));
    return m.loss_sum;
}

/* Copies the weights and statistics, and the momentum if both networks have one. */
static void copy_values(const struct net_rig *from, struct net_rig *to, bool momentum)
{
    for (int i = 0; i < from->graph->n_params; i++)
        for (int v = 0; v < 2; v++) {
            enum param_value value = v ? VALUE_MOMENTUM : VALUE_WEIGHT;
            if (v && !(momentum && param_is_trained(&from->graph->param[i])))
                continue;
            float *plain = net_rig_get(from, value, i);
            assert_ok(network_set(to->net, value, i, plain));
            free(plain);
        }
}

/* Trains a full batch and a smaller batch, and evaluates. Does the same with a separate network for
 * each program, and copies all values from network to network. The results must agree. */
static void compare_with_separate_networks(const char *device, double tolerance)
{
    struct net_rig all, one[N_PROGRAMS];
    float got[VAL * CLASSES], want[VAL * CLASSES];
    open_all(&all, device);
    net_rig_fill(&all);
    for (int k = 0; k < N_PROGRAMS; k++)
        net_rig_open(&one[k], device, "resnet8", CLASSES, SIZE, &configs[k], 1);
    net_rig_fill(&one[TRAIN]);

    for (int round = 0; round < 2; round++) { /* round 1 begins with momentum */
        train(&all, TRAIN, 2 * round, 0.05f);
        train(&all, TAIL, 2 * round + 1, 0.05f);
        double loss = evaluate(&all, EVAL, 9, got);

        train(&one[TRAIN], 0, 2 * round, 0.05f);
        copy_values(&one[TRAIN], &one[TAIL], true);
        train(&one[TAIL], 0, 2 * round + 1, 0.05f);
        copy_values(&one[TAIL], &one[EVAL], false);
        double loss_one = evaluate(&one[EVAL], 0, 9, want);
        copy_values(&one[TAIL], &one[TRAIN], true);

        for (int i = 0; i < all.graph->n_params; i++) {
            net_rig_assert_close(&all, &one[TAIL], i, VALUE_WEIGHT, tolerance, 0);
            if (param_is_trained(&all.graph->param[i]))
                net_rig_assert_close(&all, &one[TAIL], i, VALUE_MOMENTUM, tolerance, 0);
        }
        assert_true(fabs(loss - loss_one) <= tolerance * fabs(loss_one));
        for (int i = 0; i < VAL * CLASSES; i++)
            assert_true(fabsf(got[i] - want[i]) <= (float)tolerance * (1 + fabsf(want[i])));
    }
    for (int k = 0; k < N_PROGRAMS; k++)
        net_rig_close(&one[k]);
    net_rig_close(&all);
}

/* In a separate network on the CPU, a program may choose another layout of weights and another
 * order of sums. The results may therefore differ slightly. */
static void programs_share_parameters(void **state)
{
    compare_with_separate_networks("ref", 0);
    compare_with_separate_networks("cpu", 1e-4);
}

static void set_params(struct net_rig *r, const char *suffix, float value)
{
    for (int i = 0; i < r->graph->n_params; i++) {
        const struct param *p = &r->graph->param[i];
        if (!strstr(p->name, suffix))
            continue;
        float *plain = net_rig_get(r, VALUE_WEIGHT, i);
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
    struct net_rig r, before;
    float first[VAL * CLASSES], second[VAL * CLASSES];
    open_all(&r, "cpu");
    open_all(&before, "cpu");
    net_rig_fill(&r);
    net_rig_fill(&before);
    evaluate(&r, EVAL, 0, first);
    evaluate(&r, EVAL, 0, second);
    assert_memory_equal(first, second, sizeof first);
    net_rig_assert_same(&r, &before, VALUE_WEIGHT);

    /* A training step with a learning rate of 0 also updates the statistics. */
    double loss = train(&r, TRAIN, 0, 0);
    evaluate(&r, EVAL, 0, second);
    assert_memory_not_equal(first, second, sizeof first);

    /* Setting the statistics changes the results of evaluation, and not those of training. */
    set_params(&r, "running_var", 4);
    set_params(&r, "running_mean", 1);
    evaluate(&r, EVAL, 0, first);
    assert_memory_not_equal(first, second, sizeof first);
    assert_true(train(&r, TRAIN, 0, 0) == loss);
    net_rig_close(&before);
    net_rig_close(&r);
}

/* Statistics have neither gradients nor momentum. network_get and network_set refuse them. */
static void statistics_have_no_gradient(void **state)
{
    struct net_rig r;
    float plain[64];
    int i = 0;
    open_all(&r, "cpu");
    while (param_is_trained(&r.graph->param[i]))
        i++;
    assert_int_equal(network_get(r.net, VALUE_GRADIENT, i, plain), STATUS_INVALID);
    assert_non_null(strstr(status_message(), r.graph->param[i].name));
    assert_int_equal(network_set(r.net, VALUE_MOMENTUM, i, plain), STATUS_INVALID);
    net_rig_close(&r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_share_parameters),
        cmocka_unit_test(evaluation_uses_running_statistics),
        cmocka_unit_test(statistics_have_no_gradient),
    };
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
