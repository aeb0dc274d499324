/* Compares the loss and the gradients of one training step of a whole network on `cpu` with the
 * reference, under the same precision policy. The reference emulates narrow types; cpu emulates
 * them, or uses those of the processor. The order of sums differs, so last bits differ. If such a
 * difference crosses a rounding boundary of the narrow type, the results differ by a unit in the
 * last place, and the runs drift apart (drift). `selftest --operations` compares single operations.
 */
#include "model/program.h"
#include "net_rig.h"

#include <math.h>

enum { BATCH = 2 };

struct pair {
    struct net_rig ref, cpu;
    struct policy policy;
    struct step_state state;
};

static void open_one(struct net_rig *r, const char *device, const char *arch,
                     const struct policy *policy, bool emulate, const struct step_state *state)
{
    const struct program_config config = {.batch = BATCH,
                                          .train = true,
                                          .policy = *policy,
                                          .emulate = emulate,
                                          .check_finite = true,
                                          .float_input = true,
                                          .label_smoothing = 0.1f,
                                          .momentum = 0.9f,
                                          .weight_decay = 1e-2f};
    net_rig_open_on(r, net_rig_device(device),
                    arch ? net_rig_graph(arch, 10, 16) : crossroads_graph(), &config, 1);
    net_rig_fill(r);
    net_rig_input(r, network_program(r->net, 0), 0);
    assert_ok(program_state(network_program(r->net, 0), state));
}

struct precision {
    const char *policy;
    bool emulate; /* emulate narrow types on cpu even if the processor has them */
};

/* Opens the network `arch`, or crossroads_graph() if `arch` is NULL. fp16's loss scale is so
 * large that hardly any gradient is subnormal. Tests of single operations cover subnormal values.
 */
static void pair_open(struct pair *t, const char *arch, const struct precision *precision)
{
    *t = (struct pair){.state = {.seed = 3, .lr = 0.05f, .loss_scale = 1, .grad_scale = 1}};
    assert_ok(policy_find(precision->policy, -1, &t->policy));
    if (t->policy.activation == DTYPE_F16) {
        t->state.loss_scale = 1024;
        t->state.grad_scale = 1.0f / 1024;
    }
    open_one(&t->ref, "ref", arch, &t->policy, false, &t->state);
    open_one(&t->cpu, "cpu", arch, &t->policy, precision->emulate, &t->state);
}

static void pair_close(struct pair *t)
{
    net_rig_close(&t->ref);
    net_rig_close(&t->cpu);
}

/* Half a unit in the last place, as a fraction of the value: the maximum rounding error. */
static double half_ulp(enum dtype type)
{
    switch (type) {
    case DTYPE_F16:
    case DTYPE_TF32:
        return 0x1p-11;
    case DTYPE_BF16:
        return 0x1p-8;
    default:
        return 0x1p-24;
    }
}

/* Bound on the relative difference of gradients between two independent runs under one policy. The
 * input of the l-th ReLU is the result of about 2l independent roundings, because convolution and
 * batch norm store their outputs: its relative error is u sqrt(2l). For an input error of d
 * standard deviations, the runs pass different elements at 0.8 d * 0.4 of all positions (0.8 d: the
 * mean of |d|; 0.4: the normal density at 0). Half of the elements pass, so 0.64 d of the passed
 * elements are wrong by 100 %, and R ReLUs increase the square of the gradient's relative error to
 *     sum 0.64 u sqrt(2l) = 0.6 u R^1.5
 * The factor 2 is for max pooling, which also selects elements, and for small tensors. */
static double drift(const struct graph *g, const struct policy *p)
{
    double u = fmax(half_ulp(p->operand), half_ulp(p->activation)), relus = 0;
    for (int i = 0; i < g->n_nodes; i++)
        relus += g->node[i].kind == NODE_RELU;
    return 2 * sqrt(0.6 * u * pow(relus, 1.5));
}

/* A batch norm cancels the bias before it. The gradient of this bias is only rounding noise. */
static bool is_idle(const struct graph *g, int param)
{
    if (g->param[param].kind != PARAM_BIAS)
        return false;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->node[i].kind == NODE_BN && g->node[i].in[0] == g->param[param].node)
            return true;
    return false;
}

static void compare_gradient(const struct pair *t, int i, double bound)
{
    int64_t n = param_count(&t->ref.graph->param[i]);
    enum dtype type = t->ref.net->place[i].types.gradient;
    float *a = net_rig_get(&t->ref, VALUE_GRADIENT, i),
          *b = net_rig_get(&t->cpu, VALUE_GRADIENT, i);
    for (int64_t k = 0; k < n; k++)
        b[k] = dtype_round(type, b[k]); /* converted to the type in which the optimizer reads it */
    double norm = net_rig_norm(a, NULL, n), off = net_rig_norm(a, b, n);
    assert_true(norm > 0);
    if (!(off <= bound * norm))
        fail_msg("%s: the gradient of '%s' has a relative error of %.3g, more than %.3g",
                 t->policy.name, t->ref.graph->param[i].name, off / norm, bound);
    free(a);
    free(b);
}

static void check_step(const char *arch, const struct precision *precision)
{
    struct pair t;
    struct loss_metrics a, b;
    pair_open(&t, arch, precision);
    net_rig_run(network_program(t.ref.net, 0), &t.state, PHASE_BACKWARD);
    net_rig_run(network_program(t.cpu.net, 0), &t.state, PHASE_BACKWARD);
    assert_ok(program_metrics(network_program(t.ref.net, 0), &a));
    assert_ok(program_metrics(network_program(t.cpu.net, 0), &b));
    double bound = drift(t.ref.graph, &t.policy);
    assert_true(fabs(a.loss_sum - b.loss_sum) <= bound * bound * a.loss_sum);
    for (int i = 0; i < t.ref.graph->n_params; i++)
        if (param_is_trained(&t.ref.graph->param[i]) && !is_idle(t.ref.graph, i))
            compare_gradient(&t, i, bound);
    pair_close(&t);
}

static const struct precision precisions[] = {
    {"fp32"}, {"tf32"}, {"O1"}, {"O2"}, {"O3"}, {"bf16"}, {"bf16", true},
};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };
static const char *const networks[] = {NULL, "resnet8"};

static void networks_agree(void **state)
{
    for (int i = 0; i < PRECISIONS; i++)
        for (int k = 0; k < 2; k++)
            check_step(networks[k], &precisions[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(networks_agree)};
    return cmocka_run_group_tests_name("policy_agreement", tests, NULL, NULL);
}
