/* Checks which precision lowering gives each tensor of every architecture, and which operation
 * rounds it. Nothing is computed. */
#include "planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

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

/* The optimizer's segments cover the buffer in order, and have the types of their parameters. */
static void check_segments(const struct network *net)
{
    int64_t end = 0;
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

static void check_precision(const struct network *net)
{
    for (int k = 0; k < net->n_programs; k++) {
        check_rounding(net->program[k]);
        check_policy(net->program[k]);
    }
    check_segments(net);
}

static void every_tensor_has_its_precision(void **state)
{
    (void)state;
    planned_for_all(check_precision);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_has_its_precision),
    };
    return cmocka_run_group_tests_name("lowering_precision", tests, NULL, NULL);
}
