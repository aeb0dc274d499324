/* Compares one training step of a whole network on `cpu` with the reference, under the same
 * precision policy. The reference emulates narrow types; cpu emulates them, or uses those of the
 * processor.
 *
 * The order of sums differs, so last bits differ. If such a difference crosses a rounding boundary
 * of the narrow type, the results differ by a unit in the last place, and the runs drift apart.
 * There are two comparisons, each with its own bound:
 *
 *     In step    Before each operation, cpu's inputs are replaced by the reference's. The error of
 *                the operation itself is left, which is so small that a missing, additional or
 *                misplaced rounding is found (own_error).
 *     Apart      Both backends run the whole step independently, from the same weights and batch.
 *                The gradients of parameters are compared (drift). */
#include "model/program.h"
#include "net_rig.h"

#include "base/half.h"
#include "base/rng.h"

#include <math.h>

enum { BATCH = 2 };

/* ---- two networks ---- */

struct pair {
    struct net_rig ref, cpu;
    struct policy policy;
    struct step_state state;
};

static void open_one(struct net_rig *r, const char *device, const char *arch,
                     const struct policy *policy, bool emulate, enum fuse fuse,
                     const struct step_state *state)
{
    const struct program_config config = {.batch = BATCH,
                                          .fuse = fuse,
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
static void pair_open(struct pair *t, const char *arch, const struct precision *precision,
                      enum fuse fuse)
{
    *t = (struct pair){.state = {.seed = 3, .lr = 0.05f, .loss_scale = 1, .grad_scale = 1}};
    assert_ok(policy_find(precision->policy, -1, &t->policy));
    if (t->policy.activation == DTYPE_F16) {
        t->state.loss_scale = 1024;
        t->state.grad_scale = 1.0f / 1024;
    }
    open_one(&t->ref, "ref", arch, &t->policy, false, fuse, &t->state);
    open_one(&t->cpu, "cpu", arch, &t->policy, precision->emulate, fuse, &t->state);
}

static void pair_close(struct pair *t)
{
    net_rig_close(&t->ref);
    net_rig_close(&t->cpu);
}

/* ---- tensors ---- */

/* Returns the tensor of a role in plain layout, not rounded; 16-bit values become floats. `write`:
 * instead, replaces the tensor by these values. */
static void *step_tensor(const struct step *s, struct stream *stream, int role, const void *write)
{
    struct tensor_desc t = s->plan->desc.t[role];
    t.rounds = DTYPE_F32;
    t.raw = false;
    int64_t n = tensor_count(&t);
    bool f16 = t.type == DTYPE_F16, narrow = f16 || t.type == DTYPE_BF16;
    uint16_t *half = malloc((size_t)n * sizeof *half);
    float *wide = malloc((size_t)n * sizeof *wide);
    assert_true(half && wide);
    void *plain = narrow ? (void *)half : wide;
    if (write && !narrow)
        memcpy(wide, write, (size_t)n * dtype_size(t.type));
    for (int64_t i = 0; i < n && write && narrow; i++) {
        float x = ((const float *)write)[i];
        half[i] = f16 ? f16_from_float(x) : bf16_from_float(x);
    }
    assert_ok(write ? tensor_upload(stream, &t, s->arg[role], plain)
                    : tensor_download(stream, &t, s->arg[role], plain));
    for (int64_t i = 0; i < n && narrow; i++)
        wide[i] = f16 ? f16_to_float(half[i]) : bf16_to_float(half[i]);
    free(half);
    return wide;
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

/* Replaces values that will be rounded to `type` by other values with the same rounded result. Each
 * value changes by up to a quarter of a unit in the last place. A step that omits the rounding then
 * gets a different result. */
static void unround(float *x, int64_t n, enum dtype type)
{
    struct rng rng = rng_at(5, RNG_TEST, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        double by = (2 * rng_double(&rng) - 1) * half_ulp(type) / 2;
        float moved = (float)((double)x[i] * (1 + by));
        if (dtype_round(type, moved) == x[i])
            x[i] = moved;
    }
}

/* ---- in step ---- */

/* Number of terms in the sum of one element of `role`. */
static double reduction_length(const struct op_desc *d, int role)
{
    const struct tensor_desc *x = &d->t[ROLE_X], *w = &d->t[ROLE_W], *dy = &d->t[ROLE_DY];
    switch (d->kind) {
    case OP_CONV_FWD:
        return (double)(w->dim[1] * w->dim[2] * w->dim[3]);
    case OP_CONV_BWD_DATA:
        return (double)(w->dim[0] / d->attr.conv.groups * w->dim[2] * w->dim[3]);
    case OP_CONV_BWD_WEIGHTS:
        return (double)(dy->dim[0] * dy->dim[2] * dy->dim[3]);
    case OP_LINEAR_FWD:
        return (double)w->dim[1];
    case OP_LINEAR_BWD_DATA:
        return (double)w->dim[0];
    case OP_LINEAR_BWD_WEIGHTS:
        return (double)dy->dim[0];
    case OP_BN_FWD_TRAIN:
    case OP_BN_BWD:
        return (double)(x->dim[0] * x->dim[2] * x->dim[3]);
    case OP_AVGPOOL_FWD:
        return (double)(x->dim[2] * x->dim[3]);
    case OP_SOFTMAX_XENT:
        return (double)x->dim[1];
    default: /* one to four terms */
        return role == ROLE_INDEX ? 0 : 4;
    }
}

/* Bound on the norm of the difference between cpu's and the reference's result of an operation on
 * the same inputs. The reference sums in double. A sum of K terms in fp32 has up to K independent
 * roundings of partial sums, each of at most half an ulp, h = 2^-24. Their sum is about
 *     e = sqrt(K) h |r|                            |r|: the norm of the results
 * If the terms cancel, as in the bias before a batch norm, |r| is replaced by sqrt(K) times the
 * norm of as many terms as there are results. Then the result is rounded to a type with a relative
 * half ulp u. A value that is off by d crosses a rounding boundary with the probability d / ulp,
 * and is then off by one ulp, at most 2u|r_i|. The expected square of the difference is therefore
 *     sum d_i ulp_i <= e (2u |r| + sqrt(n) 2^-24)
 * where the second term is fp16's smallest ulp for n values. The factor 3 is for batch norm, which
 * computes several sums, and for tensors with few elements. For K = 1000 the bound is 1.3e-4 |r| in
 * fp16 and 3.6e-4 |r| in bf16. A wrong rounding changes the elements by 0.4u on average: 2e-4 |r|
 * in fp16 and 1.6e-3 |r| in bf16. */
static double own_error(enum dtype type, double n, double length, double norm, double terms)
{
    double e = sqrt(length) * half_ulp(DTYPE_F32) * fmax(norm, sqrt(length * n) * terms);
    if (type == DTYPE_F32)
        return 3 * e;
    double ulp = 2 * half_ulp(type) * norm + (type == DTYPE_F16 ? sqrt(n) * 0x1p-24 : 0);
    return 3 * sqrt(e * e + e * ulp);
}

/* The root mean square of the terms, if `role` is a sum whose terms cancel; 0 for other roles. */
static double term_size(const struct step *s, struct stream *stream, int role)
{
    if (role != ROLE_DB)
        return 0;
    int64_t n = tensor_count(&s->plan->desc.t[ROLE_DY]);
    float *dy = step_tensor(s, stream, ROLE_DY, NULL);
    double size = net_rig_norm(dy, NULL, n) / sqrt((double)n);
    free(dy);
    return size;
}

/* Rounds a tensor that is marked as unrounded. Checks that any other tensor is rounded already. */
static void settle(const struct step *s, int role, float *x, const char *device)
{
    const struct tensor_desc *t = &s->plan->desc.t[role];
    for (int64_t i = 0; i < tensor_count(t); i++) {
        float rounded = dtype_round(t->rounds, x[i]);
        if (!t->raw && memcmp(&rounded, &x[i], sizeof rounded) != 0)
            fail_msg("%s of '%s' on %s: %a in %s is not a value of %s", op_str(s->plan->desc.kind),
                     s->layer, device, (double)x[i], role_str((enum role)role),
                     dtype_str(t->rounds));
        x[i] = rounded;
    }
}

static void compare_result(const struct pair *t, const struct step *ref, const struct step *cpu,
                           int role, double terms)
{
    const struct op_desc *d = &ref->plan->desc;
    int64_t n = tensor_count(&d->t[role]);
    void *a = step_tensor(ref, t->ref.net->stream, role, NULL);
    void *b = step_tensor(cpu, t->cpu.net->stream, role, NULL);
    if (d->t[role].type == DTYPE_U8) {
        assert_memory_equal(a, b, (size_t)n);
    } else {
        settle(ref, role, a, "ref");
        settle(cpu, role, b, "cpu");
        double norm = net_rig_norm(a, NULL, n), off = net_rig_norm(a, b, n);
        double bound =
            own_error(d->t[role].rounds, (double)n, reduction_length(d, role), norm, terms);
        if (!(off <= bound))
            fail_msg("%s: %s of '%s': %s: error %.3g, norm %.3g, bound %.3g", t->policy.name,
                     op_str(d->kind), ref->layer, role_str((enum role)role), off, norm, bound);
    }
    free(a);
    free(b);
}

/* Copies the reference's inputs to cpu's operation. */
static void copy_inputs(const struct pair *t, const struct step *ref, const struct step *cpu)
{
    uint64_t reads = op_roles(ref->plan->desc.kind).reads;
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (!(reads >> r & 1) || ref->ref[r].space != SPACE_VALUE)
            continue;
        const struct tensor_desc *to = &cpu->plan->desc.t[r];
        void *plain = step_tensor(ref, t->ref.net->stream, r, NULL);
        if (to->raw)
            unround(plain, tensor_count(to), to->rounds);
        free(step_tensor(cpu, t->cpu.net->stream, r, plain));
        free(plain);
    }
}

/* Runs one operation on both backends with the same inputs, and compares the outputs. */
static void step_together(const struct pair *t, int at_ref, int at_cpu)
{
    struct program *p = network_program(t->ref.net, 0), *q = network_program(t->cpu.net, 0);
    const struct step *ref = &p->step[at_ref], *cpu = &q->step[at_cpu];
    uint64_t writes = op_roles(ref->plan->desc.kind).writes;
    assert_int_equal(ref->plan->desc.kind, cpu->plan->desc.kind);
    assert_string_equal(ref->layer, cpu->layer);
    copy_inputs(t, ref, cpu);
    double terms[ROLE_COUNT] = {0};
    for (int r = 0; r < ROLE_COUNT; r++)
        if (writes >> r & 1 && ref->plan->desc.t[r].ndim > 0)
            terms[r] = term_size(ref, t->ref.net->stream, r);
    assert_ok(program_run_step(p, at_ref));
    assert_ok(program_run_step(q, at_cpu));
    for (int r = 0; r < ROLE_COUNT; r++)
        if (writes >> r & 1 && ref->plan->desc.t[r].ndim > 0)
            compare_result(t, ref, cpu, r, terms[r]);
}

/* Runs reorders and roundings, up to the next step of another kind, and returns the number of that
 * step. The backends have different reorders and roundings. This does not affect the comparison,
 * because the inputs of cpu's operations are replaced. */
static int next_computing(const struct net_rig *r, int i)
{
    struct program *p = network_program(r->net, 0);
    for (; i < p->n_steps && p->step[i].phase <= PHASE_BACKWARD; i++) {
        enum op_kind kind = p->step[i].plan->desc.kind;
        if (kind != OP_ROUND && kind != OP_REORDER)
            return i;
        assert_ok(program_run_step(p, i));
    }
    return -1;
}

static void check_in_step(const char *arch, const struct precision *precision)
{
    struct pair t;
    /* without fusion, both backends have the same operations */
    pair_open(&t, arch, precision, FUSE_NONE);
    /* The input phase also converts the new weights to the types in which the passes read them. */
    assert_ok(program_run(network_program(t.ref.net, 0), PHASE_INPUT));
    assert_ok(program_run(network_program(t.cpu.net, 0), PHASE_INPUT));
    int steps = 0;
    for (int i = 0, k = 0;; i++, k++, steps++) {
        i = next_computing(&t.ref, i);
        k = next_computing(&t.cpu, k);
        if (i < 0 || k < 0) {
            assert_int_equal(i, k);
            break;
        }
        step_together(&t, i, k);
    }
    assert_true(steps > t.ref.graph->n_nodes);
    pair_close(&t);
}

/* ---- apart ---- */

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

static void check_apart(const char *arch, const struct precision *precision)
{
    struct pair t;
    struct loss_metrics a, b;
    pair_open(&t, arch, precision, FUSE_AUTO);
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

static void networks_agree_in_step(void **state)
{
    for (int i = 0; i < PRECISIONS; i++)
        for (int k = 0; k < 2; k++)
            check_in_step(networks[k], &precisions[i]);
}

static void networks_agree_apart(void **state)
{
    for (int i = 0; i < PRECISIONS; i++)
        for (int k = 0; k < 2; k++)
            check_apart(networks[k], &precisions[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_agree_in_step),
        cmocka_unit_test(networks_agree_apart),
    };
    return cmocka_run_group_tests_name("policy_agreement", tests, NULL, NULL);
}
