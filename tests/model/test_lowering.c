/* Checks the lowering of networks: no operation overwrites a value that is still needed, the memory
 * plan is tight, and each tensor has the precision of the policy. Nothing is computed, so even
 * large networks take little memory and time. */
#include "model/program.h"
#include "net_rig.h"

enum { CLASSES = 10, SIZE = 64, ARENA_ALIGN = 256 };

/* Indices of a network's programs: training, training on a smaller batch, evaluation. */
enum { TRAIN, TAIL, EVAL, N_PROGRAMS };

/* The type to which a tensor's values are rounded, whether they are stored in two bytes or as fp32.
 */
static enum dtype held_precision(const struct tensor_desc *t)
{
    return t->type == DTYPE_F16 || t->type == DTYPE_BF16 ? t->type : t->rounds;
}

static bool is_value(const struct step *s, int role)
{
    return s->ref[role].space == SPACE_VALUE;
}

static bool in_set(uint64_t set, int role)
{
    return set >> role & 1;
}

/* ---- reads and writes ---- */

static bool overlap(const struct value *a, const struct value *b)
{
    return a->offset < b->offset + b->desc.bytes && b->offset < a->offset + a->desc.bytes;
}

/* The kinds whose output may have the memory of an input (kernels/ops.h). */
static const uint64_t in_place = OP_SET(BN_BWD) | OP_SET(BN_BWD_APPLY) | OP_SET(RELU_FWD) |
                                 OP_SET(RELU_BWD) | OPS_DROPOUT | OP_SET(ADD) | OP_SET(ROUND);

/* The outputs of a step overlap neither each other nor an input, unless the kind of operation
 * allows it. */
static void check_step_memory(const struct program *p, const struct step *s)
{
    struct op_roles roles = op_roles(s->plan->desc.kind);
    int shared = 0;
    for (int o = 0; o < ROLE_COUNT; o++) {
        if (!in_set(roles.writes, o) || !is_value(s, o))
            continue;
        const struct value *out = &p->value[s->ref[o].index];
        for (int i = 0; i < ROLE_COUNT; i++) {
            if (i == o || !is_value(s, i) || !overlap(out, &p->value[s->ref[i].index]))
                continue;
            if (!in_set(roles.reads, i) || !op_in(s->plan->desc.kind, in_place) ||
                p->value[s->ref[i].index].offset != out->offset)
                fail_msg("%s of '%s': %s overlaps %s", op_str(s->plan->desc.kind), s->layer,
                         role_str(o), role_str(i));
            shared++;
        }
    }
    assert_in_range(shared, 0, 1);
}

/* Stores which values are valid while the steps run in order: a value is valid from a write to it
 * until its memory is overwritten. A value that no step writes is a view: it has the memory of
 * another value, in another shape. */
struct contents {
    bool *written; /* written by some step of the program */
    bool *valid;
};

static void contents_write(struct contents *c, const struct program *p, int v)
{
    for (int u = 0; u < p->n_values; u++)
        if (u != v && overlap(&p->value[u], &p->value[v]))
            c->valid[u] = p->value[u].storage == p->value[v].storage && !c->written[u];
    c->valid[v] = true;
}

static void check_data_flow(const struct program *p)
{
    struct contents c = {.written = calloc((size_t)p->n_values, sizeof(bool)),
                         .valid = calloc((size_t)p->n_values, sizeof(bool))};
    assert_true(c.written && c.valid);
    for (int i = 0; i < p->n_steps; i++)
        for (int r = 0; r < ROLE_COUNT; r++)
            if (in_set(op_roles(p->step[i].plan->desc.kind).writes, r) && is_value(&p->step[i], r))
                c.written[p->step[i].ref[r].index] = true;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        struct op_roles roles = op_roles(s->plan->desc.kind);
        for (int r = 0; r < ROLE_COUNT; r++)
            if (in_set(roles.reads, r) && is_value(s, r) && !c.valid[s->ref[r].index])
                fail_msg("%s of '%s' reads %s, which is not written yet or is overwritten",
                         op_str(s->plan->desc.kind), s->layer, role_str(r));
        check_step_memory(p, s);
        for (int r = 0; r < ROLE_COUNT; r++)
            if (in_set(roles.writes, r) && is_value(s, r))
                contents_write(&c, p, s->ref[r].index);
    }
    assert_true(c.valid[p->logits]); /* readable after the step */
    free(c.written);
    free(c.valid);
}

/* ---- size of the arena ---- */

/* The maximum number of bytes alive at one step, a lower bound for any plan. */
static size_t peak_bytes(const struct program *p)
{
    int *first = malloc(2 * (size_t)p->n_values * sizeof *first), *last = first + p->n_values;
    size_t peak = 0;
    assert_non_null(first);
    for (int v = 0; v < p->n_values; v++)
        first[v] = last[v] = -1;
    for (int i = 0; i < p->n_steps; i++) {
        for (int r = 0; r < ROLE_COUNT; r++) {
            if (!is_value(&p->step[i], r))
                continue;
            int owner = p->value[p->step[i].ref[r].index].storage;
            first[owner] = first[owner] < 0 ? i : first[owner];
            last[owner] = i;
        }
    }
    last[p->value[p->logits].storage] = p->n_steps;
    for (int i = 0; i < p->n_steps; i++) {
        size_t alive = 0;
        for (int v = 0; v < p->n_values; v++)
            if (first[v] >= 0 && first[v] <= i && i <= last[v])
                alive += (p->value[v].desc.bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        peak = alive > peak ? alive : peak;
    }
    free(first);
    return peak;
}

/* The arena is at most 3 % larger than the lower bound peak_bytes() in training, and 17 % larger in
 * evaluation, where few values alternate. The planner places the largest values first. */
static void check_arena(const struct program *p)
{
    double share = (double)p->arena_bytes / (double)peak_bytes(p);
    if (!(share >= 1 && share <= (p->config.train ? 1.03 : 1.17)))
        fail_msg("%s, batch %d: the arena has %zu bytes, %.4f times the lower bound",
                 p->net->graph->arch, p->config.batch, p->arena_bytes, share);
}

/* ---- precision ---- */

/* Sets held[v], the description with which the memory of value v was last written, while the steps
 * run in order. Values that share memory get the same description. */
static void held_write(struct tensor_desc *held, const struct program *p, int v,
                       const struct tensor_desc *as)
{
    for (int u = 0; u < p->n_values; u++)
        if (p->value[u].storage == p->value[v].storage)
            held[u] = *as;
}

/* If a step reads unrounded values, its description must say so. All other steps read values that
 * are rounded to the type they expect. No result is rounded later, except for gradients, which the
 * optimizer rounds. */
static void check_rounding(const struct program *p)
{
    struct tensor_desc *held = calloc((size_t)p->n_values, sizeof *held);
    assert_non_null(held);
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        struct op_roles roles = op_roles(s->plan->desc.kind);
        for (int r = 0; r < ROLE_COUNT; r++) {
            const struct tensor_desc *t = &s->plan->desc.t[r];
            const struct tensor_desc *was = is_value(s, r) ? &held[s->ref[r].index] : NULL;
            if (!in_set(roles.reads, r) || !was || was->ndim == 0)
                continue;
            bool same = (t->type == was->type && t->rounds == was->rounds) ||
                        s->plan->desc.kind == OP_ROUND;
            if (!same || (was->raw && !t->raw))
                fail_msg("%s of '%s' reads %s as %s%s, but its memory has %s%s",
                         op_str(s->plan->desc.kind), s->layer, role_str((enum role)r),
                         t->raw ? "raw " : "", dtype_str(held_precision(t)), was->raw ? "raw " : "",
                         dtype_str(held_precision(was)));
        }
        for (int r = 0; r < ROLE_COUNT; r++) {
            const struct tensor_desc *t = &s->plan->desc.t[r];
            if (!in_set(roles.writes, r) || t->ndim == 0)
                continue;
            assert_true(!t->raw || t->rounds != DTYPE_F32);
            if (is_value(s, r))
                held_write(held, p, s->ref[r].index, t);
            else
                assert_true(!t->raw || s->ref[r].space == SPACE_GRADIENT);
        }
    }
    free(held);
}

/* Whether another step reads the AFFINE of step `s` as the coefficients of a residual. A step
 * counts only if a kernel of the device itself executes it. The convolutions of a library do not
 * count. */
static bool is_of_shortcut(const struct program *p, const struct step *s)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].plan->desc.t[ROLE_Z_AFFINE].ndim &&
            p->step[i].plan->desc.kind != OP_CONV_STATS_FWD &&
            p->step[i].ref[ROLE_Z_AFFINE].index == s->ref[ROLE_AFFINE].index)
            return true;
    return false;
}

/* The precision that the policy gives a tensor. It depends on whether the tensor is multiplied,
 * only stored, or a parameter. */
static enum dtype precision_of(const struct program *p, const struct step *s, int role)
{
    const struct policy *policy = &p->config.policy;
    const struct placement *at = &p->net->place[s->ref[role].index];
    const uint64_t always_fp32 = ROLE_SET(MEAN) | ROLE_SET(INVSTD) | ROLE_SET(SUMS) | ROLE_SET(EQ) |
                                 ROLE_SET(Z_MEAN) | ROLE_SET(Z_INVSTD) | ROLE_SET(Z_EQ) |
                                 (s->plan->desc.kind == OP_CONV_STATS_FWD ? 0 : ROLE_SET(Z_AFFINE));
    uint64_t read = op_roles(s->plan->desc.kind).reads;
    switch (s->ref[role].space) {
    case SPACE_WEIGHT:
    case SPACE_COPY:
        return at->types.copy;
    case SPACE_GRADIENT:
        return at->types.gradient;
    default:
        break;
    }
    if (in_set(always_fp32, role) || (role == ROLE_AFFINE && is_of_shortcut(p, s)))
        return DTYPE_F32;
    switch (s->plan->desc.kind) {
    case OP_CONV_FWD:
    case OP_CONV_BWD_DATA:
    case OP_CONV_BWD_WEIGHTS:
    case OP_LINEAR_FWD:
    case OP_LINEAR_BWD_DATA:
    case OP_LINEAR_BWD_WEIGHTS:
    case OP_CONV_STATS_FWD:
    case OP_CONV_APPLY_BWD_WEIGHTS:
        return in_set(read, role) ? policy->operand : policy->activation;
    case OP_CONV_BWD_DATA_BN:
        return role == ROLE_DY || role == ROLE_W ? policy->operand : policy->activation;
    default:
        return s->plan->desc.t[role].type == DTYPE_U8 ? DTYPE_F32 : policy->activation;
    }
}

/* Operations that only round or reorder are not checked. Such an operation lies between two other
 * operations, and its tensors have the types of these two operations. */
static void check_policy(const struct program *p)
{
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        const struct op_desc *d = &s->plan->desc;
        bool moves = d->kind == OP_ROUND || d->kind == OP_REORDER || s->phase == PHASE_INPUT;
        for (int r = 0; r < ROLE_COUNT && !moves && s->phase <= PHASE_BACKWARD; r++) {
            if (d->t[r].ndim == 0 || r == ROLE_LABEL)
                continue;
            if (held_precision(&d->t[r]) != precision_of(p, s, r))
                fail_msg("%s: %s of '%s' has %s in %s, not in %s", p->config.policy.name,
                         op_str(d->kind), s->layer, role_str((enum role)r),
                         dtype_str(held_precision(&d->t[r])), dtype_str(precision_of(p, s, r)));
        }
        assert_false(d->kind == OP_ROUND && p->config.policy.operand == DTYPE_F32);
    }
}

/* The optimizer's segments cover the buffer in order, and have the types of their parameters. LARS
 * applies to the weights of convolution and linear layers, each with a segment of its own. */
static void check_segments(const struct network *net)
{
    int64_t end = 0;
    float lars = net->program[TRAIN]->config.lars;
    for (int i = 0; i < net->n_segments; i++) {
        const struct sgd_segment *s = &net->segment[i];
        assert_int_equal(s->begin, end);
        assert_true(s->end > end);
        end = s->end;
        for (int k = 0; k < net->n_trained; k++) {
            const struct placement *at = &net->place[net->order[k]];
            int64_t begin = (int64_t)(at->offset / sizeof(float));
            if (begin < s->begin || begin >= s->end)
                continue;
            assert_true(begin + (int64_t)(at->desc.bytes / sizeof(float)) <= s->end);
            bool weight = net->graph->param[net->order[k]].ndim > 1;
            assert_true(s->trust == (weight ? lars : 0) && (s->trust == 0 || s->begin == begin));
            assert_int_equal(s->gradient, at->types.gradient);
            assert_int_equal(s->master, at->types.master);
            /* If the optimizer writes no half-precision copies, the passes cast the master weights
             * themselves. */
            bool recast = at->cast && net->copy_type == DTYPE_F32;
            assert_int_equal(s->copy, recast ? at->types.master : at->types.copy);
        }
    }
    assert_int_equal(end * (int64_t)sizeof(float), net->flat_bytes);
}

/* Planning takes longer than checking. Each plan therefore goes through all checks at once. */
static void check_plan(const struct network *net)
{
    for (int k = 0; k < N_PROGRAMS; k++) {
        const struct program *p = net->program[k];
        check_data_flow(p);
        check_arena(p);
        check_rounding(p);
        check_policy(p);
    }
    check_segments(net);
}

/* amp and O1 have the same plans as O2. A device that does not support bf16 has the same plans with
 * emulation as without emulation. */
static const struct variant {
    const char *device, *policy;
    int keep_batchnorm;
    bool emulate;
    enum fuse fuse;
} variants[] = {
    {"cpu", "fp32", -1, false, FUSE_AUTO}, {"ref", "fp32", -1, true, FUSE_STATS},
    {"cpu", "tf32", -1, false, FUSE_AUTO}, {"ref", "tf32", -1, true, FUSE_ALL},
    {"cpu", "O2", -1, false, FUSE_AUTO},   {"ref", "O2", -1, true, FUSE_ALL},
    {"cpu", "O2", 0, false, FUSE_AUTO},    {"ref", "O2", 0, false, FUSE_AUTO},
    {"cpu", "O3", -1, false, FUSE_AUTO},   {"ref", "O3", -1, true, FUSE_APPLY},
    {"cpu", "O3", 1, false, FUSE_AUTO},    {"ref", "O3", 1, false, FUSE_AUTO},
    {"cpu", "bf16", -1, false, FUSE_AUTO}, {"ref", "bf16", 0, false, FUSE_AUTO},
    {"cpu", "bf16", -1, true, FUSE_AUTO},
};

static void open_planned(struct net_rig *r, const char *arch, const struct variant *v)
{
    struct program_config c[N_PROGRAMS] = {
        [TRAIN] = {.batch = 3, .train = true, .check_finite = true, .std = {1, 1, 1}},
        [TAIL] = {.batch = 2, .train = true, .check_finite = true, .std = {1, 1, 1}},
        [EVAL] = {.batch = 3, .std = {1, 1, 1}}};
    for (int i = 0; i < N_PROGRAMS; i++) {
        assert_ok(policy_find(v->policy, v->keep_batchnorm, &c[i].policy));
        c[i].lars = v->fuse == FUSE_AUTO ? 0.001f : 0;
        c[i].emulate = v->emulate;
        c[i].fuse = v->fuse;
    }
    net_rig_open_lazy(r, v->device, arch, CLASSES, SIZE, c, N_PROGRAMS);
}

/* One network of each kind of block. The other architectures repeat these blocks. */
static void every_plan_is_sound(void **state)
{
    static const char *const arch[] = {"alexnet",         "resnet8", "resnet18", "resnet50",
                                       "resnext50_32x4d", "vgg11",   "vgg11_bn"};
    for (size_t i = 0; i < sizeof arch / sizeof *arch; i++)
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
            struct net_rig r;
            open_planned(&r, arch[i], &variants[k]);
            check_plan(r.net);
            net_rig_close(&r);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan_is_sound)};
    return cmocka_run_group_tests_name("lowering", tests, NULL, NULL);
}
