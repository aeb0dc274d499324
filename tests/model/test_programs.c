/* Tests the programs of one network: training at two batch sizes and evaluation share weights,
 * statistics and momentum, and nothing else. */
#include "net_rig.h"

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

/* The logits of an evaluation of batch `step`. */
static void evaluate(struct net_rig *r, int program, int step, float logits[VAL * CLASSES])
{
    struct program *p = network_program(r->net, program);
    net_rig_input(r, p, step);
    net_rig_run(p, &plain_state, PHASE_FORWARD);
    assert_ok(program_logits(p, logits));
}

/* A network with one program continues after a step of the smaller batch in the first network:
 * weights, statistics and momentum are those of all programs. */
static void programs_share_parameters(void **state)
{
    struct net_rig all, one;
    open_all(&all, "ref");
    net_rig_open(&one, "ref", "resnet8", CLASSES, SIZE, &configs[TRAIN], 1);
    net_rig_fill(&all);
    train(&all, TAIL, 0, 0.05f);
    for (int i = 0; i < all.graph->n_params; i++)
        for (int v = 0; v < 1 + param_is_trained(&all.graph->param[i]); v++) {
            enum param_value value = v ? VALUE_MOMENTUM : VALUE_WEIGHT;
            float *plain = net_rig_get(&all, value, i);
            assert_ok(network_set(one.net, value, i, plain));
            free(plain);
        }
    assert_true(train(&all, TRAIN, 1, 0.05f) == train(&one, 0, 1, 0.05f));
    net_rig_assert_same(&all, &one, VALUE_WEIGHT);
    net_rig_assert_same(&all, &one, VALUE_MOMENTUM);
    net_rig_close(&one);
    net_rig_close(&all);
}

static void evaluation_changes_nothing(void **state)
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
    train(&r, TRAIN, 0, 0); /* changes the running statistics alone */
    evaluate(&r, EVAL, 0, second);
    assert_memory_not_equal(first, second, sizeof first);
    net_rig_close(&before);
    net_rig_close(&r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_share_parameters),
        cmocka_unit_test(evaluation_changes_nothing),
    };
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
