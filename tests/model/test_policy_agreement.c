/* Compares one training step of a whole network on `cpu` with the reference, under the same
 * precision policy. The reference emulates narrow types. The backend cpu emulates them too, or uses
 * the narrow types of the processor. Both variants of cpu are compared with the reference.
 *
 * The two results cannot be equal: the order of sums differs, so last bits differ. If such a
 * difference crosses a rounding boundary of the narrow type, the results differ by a unit in the
 * last place. From then on the two runs drift apart. There are two comparisons, each with its own
 * bound:
 *
 *     In step    Before each operation, cpu's inputs are replaced by the reference's. Only the
 *                error of the operation itself is left. It is so small that a missing, additional
 *                or misplaced rounding is found. See own_error().
 *     Apart      Both backends run the whole step independently, from the same weights and batch.
 *                The gradients of parameters are compared. See drift() for the bound. */
#include "crossroads.h"
#include "model/program.h"
#include "net_rig.h"
#include "step_tensor.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2 };

/* ---- two networks ---- */

struct pair {
    struct net_rig ref, cpu;
    struct policy policy;
    struct step_state state;
};

static void open_one(struct net_rig *r, const char *device, const char *arch, int image_size,
                     const struct policy *policy, bool emulate, enum fuse fuse)
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
    if (arch) {
        net_rig_open(r, device, arch, 10, image_size, &config, 1);
    } else {
        assert_ok(device_open(device, 2, &r->dev));
        r->graph = crossroads_graph();
        assert_ok(network_open(r->dev, r->graph, &config, 1, &r->net));
    }
    net_rig_fill(r);
}

static void begin(struct net_rig *r, const struct step_state *state)
{
    struct program *p = network_program(r->net, 0);
    net_rig_input(r, p, 0);
    assert_ok(program_state(p, state));
}

struct precision {
    const char *policy;
    bool emulate; /* emulate narrow types on cpu even if the processor has them */
};

/* Opens the network `arch`, or that of crossroads.h if `arch` is NULL. fp16's loss scale is so
 * large that hardly any gradient is subnormal. Tests of single operations cover subnormal values.
 */
static void pair_open(struct pair *t, const char *arch, int image_size,
                      const struct precision *precision, enum fuse fuse)
{
    *t = (struct pair){.state = {.seed = 3, .lr = 0.05f, .loss_scale = 1, .grad_scale = 1}};
    assert_ok(policy_find(precision->policy, -1, &t->policy));
    if (t->policy.activation == DTYPE_F16) {
        t->state.loss_scale = 1024;
        t->state.grad_scale = 1.0f / 1024;
    }
    open_one(&t->ref, "ref", arch, image_size, &t->policy, false, fuse);
    open_one(&t->cpu, "cpu", arch, image_size, &t->policy, precision->emulate, fuse);
    begin(&t->ref, &t->state);
    begin(&t->cpu, &t->state);
}

static void pair_close(struct pair *t)
{
    net_rig_close(&t->ref);
    net_rig_close(&t->cpu);
}

/* ---- tensors ---- */

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static double distance(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum);
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
 * the same inputs.
 *
 * The reference sums in double. A sum of K terms in fp32 has up to K roundings of partial sums, in
 * any order, each with an error of at most half an ulp, h = 2^-24. These errors are independent, so
 * their sum is about
 *     e = sqrt(K) h |r|                            |r|: the norm of the results
 * if the terms do not cancel. If they cancel, |r| is replaced by sqrt(K) times the norm of as many
 * terms as there are results. An example is the bias before a batch norm, whose gradient is 0.
 *
 * Then the result is rounded to a type with a relative half ulp u. A value that is off by d crosses
 * a rounding boundary with the probability d / ulp. It is then off by one ulp, which is at most
 * 2u|r_i|. The expected square of the difference is therefore
 *     sum d_i ulp_i <= e (2u |r| + sqrt(n) 2^-24)
 * where the second term is fp16's smallest ulp for n values. The bound on the norm is
 *     3 sqrt(e^2 + e (2u |r| + sqrt(n) 2^-24))
 * The factor 3 is for batch norm, which computes several sums, and for tensors with few elements.
 * For K = 1000 the bound is 1.3e-4 |r| in fp16 and 3.6e-4 |r| in bf16. A missing, additional or
 * misplaced rounding changes the elements by 0.4u on average: 2e-4 |r| in fp16 and 1.6e-3 |r| in
 * bf16. */
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
    float *dy = step_tensor_read(s, stream, ROLE_DY);
    double size = norm_of(dy, n) / sqrt((double)n);
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
    void *a = step_tensor_read(ref, t->ref.net->stream, role);
    void *b = step_tensor_read(cpu, t->cpu.net->stream, role);
    if (d->t[role].type == DTYPE_U8) {
        assert_memory_equal(a, b, (size_t)n);
    } else {
        settle(ref, role, a, "ref");
        settle(cpu, role, b, "cpu");
        double norm = norm_of(a, n), off = distance(a, b, n);
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
        void *plain = step_tensor_read(ref, t->ref.net->stream, r);
        if (to->raw)
            unround(plain, tensor_count(to), to->rounds);
        step_tensor_write(cpu, t->cpu.net->stream, r, plain);
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

/* Compares the optimizer's results for the same gradients: weights, momentum, and the weights that
 * the next forward pass reads. A new weight is a sum of four terms. */
static void compare_param(const struct pair *t, int i)
{
    static const enum param_value kept[] = {VALUE_WEIGHT, VALUE_MOMENTUM};
    const struct network *net = t->cpu.net;
    const struct placement *at = &net->place[i];
    const char *name = net->graph->param[i].name;
    int64_t n = param_count(&net->graph->param[i]);
    float *read = malloc((size_t)n * sizeof *read);
    assert_non_null(read);
    for (int v = 0; v < 2; v++) {
        float *a = net_rig_get(&t->ref, kept[v], i), *b = net_rig_get(&t->cpu, kept[v], i);
        double norm = norm_of(a, n), off = distance(a, b, n);
        if (!(off <= own_error(at->types.master, (double)n, 4, norm, 0)))
            fail_msg("%s: the update of '%s': error %.3g, norm %.3g", t->policy.name, name, off,
                     norm);
        for (int64_t k = 0; k < n; k++)
            assert_true(dtype_round(at->types.master, b[k]) == b[k]);
        if (kept[v] == VALUE_WEIGHT && at->types.copy != at->types.master && !at->cast) {
            assert_ok(tensor_download(net->stream, &at->desc, net->copies + at->offset, read));
            for (int64_t k = 0; k < n; k++)
                assert_true(dtype_round(at->types.copy, b[k]) == read[k]);
        }
        free(a);
        free(b);
    }
    free(read);
}

static void update_together(const struct pair *t)
{
    for (int i = 0; i < t->ref.graph->n_params; i++) {
        if (!param_is_trained(&t->ref.graph->param[i]))
            continue;
        float *g = net_rig_get(&t->ref, VALUE_GRADIENT, i);
        unround(g, param_count(&t->ref.graph->param[i]), t->ref.net->place[i].types.gradient);
        assert_ok(network_set(t->cpu.net, VALUE_GRADIENT, i, g));
        free(g);
    }
    for (int phase = PHASE_CHECK; phase <= PHASE_UPDATE; phase++) {
        assert_ok(program_run(network_program(t->ref.net, 0), (enum phase)phase));
        assert_ok(program_run(network_program(t->cpu.net, 0), (enum phase)phase));
    }
    for (int i = 0; i < t->ref.graph->n_params; i++)
        if (param_is_trained(&t->ref.graph->param[i]))
            compare_param(t, i);
}

static void check_in_step(const char *arch, int image_size, const struct precision *precision)
{
    struct pair t;
    /* without fusion, both backends have the same operations */
    pair_open(&t, arch, image_size, precision, FUSE_NONE);
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
    update_together(&t);
    pair_close(&t);
}

/* ---- apart ---- */

/* Bound on the relative difference of gradients between two independent runs under one policy.
 *
 * The input of the l-th ReLU is the result of about 2l roundings, because convolution and batch
 * norm store their outputs. These roundings are independent once the runs differ by an ulp, so the
 * relative error of the input is u sqrt(2l). For an input error of d standard deviations, the two
 * runs pass different elements at about 0.8 d * 0.4 of all positions; 0.8 d is the mean of |d|, and
 * 0.4 is the normal density at 0. Half of the elements pass, so 0.64 d of the passed elements are
 * wrong, each with an error of 100 %. Each ReLU therefore increases the square of the gradient's
 * relative error by
 *     0.64 u sqrt(2l)
 * The sum over R ReLUs is
 *     0.6 u R^1.5
 * which is much larger than u. Sums of K terms add nothing: the errors of terms average out, and
 * fp32 sums are accurate to 2^-24 sqrt(K). The factor 2 is for max pooling, which also selects
 * elements, and for small tensors, whose few elements do not average out. */
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
    double norm = norm_of(a, n), off = distance(a, b, n);
    assert_true(norm > 0);
    if (!(off <= bound * norm))
        fail_msg("%s: the gradient of '%s' has a relative error of %.3g, more than %.3g",
                 t->policy.name, t->ref.graph->param[i].name, off / norm, bound);
    free(a);
    free(b);
}

static void check_apart(const char *arch, int image_size, const struct precision *precision)
{
    struct pair t;
    struct loss_metrics a, b;
    pair_open(&t, arch, image_size, precision, FUSE_AUTO);
    for (int phase = PHASE_INPUT; phase <= PHASE_BACKWARD; phase++) {
        assert_ok(program_run(network_program(t.ref.net, 0), (enum phase)phase));
        assert_ok(program_run(network_program(t.cpu.net, 0), (enum phase)phase));
    }
    assert_ok(program_metrics(network_program(t.ref.net, 0), &a));
    assert_ok(program_metrics(network_program(t.cpu.net, 0), &b));
    double bound = drift(t.ref.graph, &t.policy);
    assert_true(fabs(a.loss_sum - b.loss_sum) <= bound * bound * a.loss_sum);
    for (int i = 0; i < t.ref.graph->n_params; i++)
        if (param_is_trained(&t.ref.graph->param[i]) && !is_idle(t.ref.graph, i))
            compare_gradient(&t, i, bound);
    pair_close(&t);
}

/* ---- tests ---- */

static const struct precision precisions[] = {
    {"fp32"}, {"tf32"}, {"O1"}, {"O2"}, {"O3"}, {"bf16"}, {"bf16", true},
};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

static void crossroads_agree_in_step(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; i++)
        check_in_step(NULL, CROSSROADS_SIZE, &precisions[i]);
}

static void resnet8_agrees_in_step(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; i++)
        check_in_step("resnet8", 16, &precisions[i]);
}

static void crossroads_agree_apart(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; i++)
        check_apart(NULL, CROSSROADS_SIZE, &precisions[i]);
}

static void resnet8_agrees_apart(void **state)
{
    (void)state;
    for (int i = 0; i < PRECISIONS; i++)
        check_apart("resnet8", 16, &precisions[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(crossroads_agree_in_step),
        cmocka_unit_test(resnet8_agrees_in_step),
        cmocka_unit_test(crossroads_agree_apart),
        cmocka_unit_test(resnet8_agrees_apart),
    };
    return cmocka_run_group_tests_name("policy_agreement", tests, NULL, NULL);
}
