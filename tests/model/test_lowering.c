/* Checks the lowering of every architecture: no operation overwrites a value that is still needed,
 * the memory plan is tight, and gradients become complete in the order of the flat buffer. Nothing
 * is computed, so even the largest networks take little memory and time. */
#include "planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- reads and writes ---- */

static bool overlap(const struct value *a, const struct value *b)
{
    return a->offset < b->offset + b->desc.bytes && b->offset < a->offset + a->desc.bytes;
}

/* Whether the output `out` of an operation of this kind may share memory with its input `in`
 * (kernels/ops.h). */
static bool in_place_allowed(enum op_kind kind, int out, int in)
{
    switch (kind) {
    case OP_BN_BWD:
        return (out == ROLE_DX || out == ROLE_DZ) && (in == ROLE_DY || in == ROLE_DY2);
    case OP_RELU_FWD:
    case OP_DROPOUT_FWD:
        return out == ROLE_Y && in == ROLE_X;
    case OP_RELU_BWD:
    case OP_DROPOUT_BWD:
        return out == ROLE_DX && in == ROLE_DY;
    case OP_BN_BWD_APPLY:
        return (out == ROLE_DX || out == ROLE_DZ) && in == ROLE_DY;
    case OP_ADD:
        return out == ROLE_Y && (in == ROLE_X || in == ROLE_Z);
    case OP_ROUND:
        return out == ROLE_Y && in == ROLE_X;
    default:
        return false;
    }
}

/* The outputs of a step overlap neither each other nor an input, unless the kind of operation
 * allows it. */
static void check_step_memory(const struct program *p, const struct step *s)
{
    struct op_roles roles = op_roles(s->plan->desc.kind);
    int in_place = 0;
    for (int o = 0; o < ROLE_COUNT; o++) {
        if (!in_set(roles.writes, o) || !is_value(s, o))
            continue;
        const struct value *out = &p->value[s->ref[o].index];
        for (int i = 0; i < ROLE_COUNT; i++) {
            if (i == o || !is_value(s, i) || !overlap(out, &p->value[s->ref[i].index]))
                continue;
            bool allowed = in_set(roles.reads, i) && in_place_allowed(s->plan->desc.kind, o, i) &&
                           p->value[s->ref[i].index].offset == out->offset;
            if (!allowed)
                fail_msg("%s of '%s': %s overlaps %s", op_str(s->plan->desc.kind), s->layer,
                         role_str(o), role_str(i));
            in_place++;
        }
    }
    assert_in_range(in_place, 0, 1);
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

static void check_reads(const struct contents *c, const struct step *s)
{
    uint64_t reads = op_roles(s->plan->desc.kind).reads;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (in_set(reads, r) && is_value(s, r) && !c->valid[s->ref[r].index])
            fail_msg("%s of '%s' reads %s, which is not written yet or is overwritten",
                     op_str(s->plan->desc.kind), s->layer, role_str(r));
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
        check_reads(&c, s);
        check_step_memory(p, s);
        for (int r = 0; r < ROLE_COUNT; r++)
            if (in_set(op_roles(s->plan->desc.kind).writes, r) && is_value(s, r))
                contents_write(&c, p, s->ref[r].index);
    }
    assert_true(c.valid[p->logits]); /* readable after the step */
    free(c.written);
    free(c.valid);
}

/* No value is overwritten before its last use. */
static void check_network_data_flow(const struct network *net)
{
    for (int i = 0; i < net->n_programs; i++)
        check_data_flow(net->program[i]);
}

/* ---- arguments ---- */

/* The arguments of a step point to the memory of their values. */
static void check_pointers(const struct network *net)
{
    for (int k = 0; k < net->n_programs; k++) {
        const struct program *p = net->program[k];
        for (int i = 0; i < p->n_steps; i++) {
            const struct step *s = &p->step[i];
            for (int r = 0; r < ROLE_COUNT; r++) {
                const struct tensor_desc *t = &s->plan->desc.t[r];
                assert_int_equal((uintptr_t)s->arg[r] % PLANNED_ALIGN, 0);
                assert_int_equal(t->ndim > 0 && !s->arg[r], 0);
                if (is_value(s, r)) {
                    const struct value *v = &p->value[s->ref[r].index];
                    assert_ptr_equal(s->arg[r], net->arena + v->offset);
                    assert_int_equal(v->offset % PLANNED_ARENA_ALIGN, 0);
                    assert_int_equal(v->desc.bytes, t->bytes);
                    assert_true(v->offset + t->bytes <= p->arena_bytes);
                }
            }
            assert_int_equal(p->arena_bytes % PLANNED_ARENA_ALIGN, 0);
            if (s->plan->workspace)
                assert_ptr_equal(s->arg[ROLE_WORKSPACE], net->arena + p->arena_bytes);
            assert_true(p->arena_bytes + s->plan->workspace <= net->arena_bytes);
        }
    }
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
                alive += (p->value[v].desc.bytes + PLANNED_ARENA_ALIGN - 1) / PLANNED_ARENA_ALIGN *
                         PLANNED_ARENA_ALIGN;
        peak = alive > peak ? alive : peak;
    }
    free(first);
    return peak;
}

/* The arena is at most 3 % larger than the lower bound peak_bytes() in training, and 17 % larger in
 * evaluation, where few values alternate. The planner places the largest values first. */
static void check_arena(const struct network *net)
{
    for (int k = 0; k < net->n_programs; k++) {
        const struct program *p = net->program[k];
        double share = (double)p->arena_bytes / (double)peak_bytes(p);
        if (!(share >= 1 && share <= (p->config.train ? 1.03 : 1.17)))
            fail_msg("%s, batch %d: the arena has %zu bytes, %.4f times the lower bound",
                     net->graph->arch, p->config.batch, p->arena_bytes, share);
    }
    assert_true(net->program[EVAL]->arena_bytes < net->program[TRAIN]->arena_bytes);
}

/* ---- gradients ---- */

/* Each backward step completes one range of the buffer. The range begins where the range of the
 * previous step ended. The last range ends at the end of the buffer. */
static void check_ranges(const struct program *p)
{
    int64_t end = 0;
    for (int i = 0; i < program_steps(p); i++) {
        struct step_info s = program_step(p, i);
        if (s.grad_begin == s.grad_end)
            continue;
        assert_int_equal(s.phase, PHASE_BACKWARD);
        assert_int_equal(s.grad_begin, end);
        assert_true(s.grad_end > end);
        end = s.grad_end;
    }
    assert_int_equal(end * (int64_t)sizeof(float), p->net->flat_bytes);
}

/* Exactly one backward step writes the gradient of each trained parameter, inside the range that
 * this step completes. The batch norm of a shortcut is an exception: its gradients are written
 * before their range is completed. */
static void check_writers(const struct program *p)
{
    const struct graph *g = p->net->graph;
    int *writers = calloc((size_t)g->n_params, sizeof *writers);
    assert_non_null(writers);
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        for (int r = 0; r < ROLE_COUNT; r++) {
            if (s->ref[r].space != SPACE_GRADIENT)
                continue;
            const struct placement *at = &p->net->place[s->ref[r].index];
            writers[s->ref[r].index]++;
            assert_true(in_set(op_roles(s->plan->desc.kind).writes, r));
            assert_ptr_equal(s->arg[r], p->net->gradients + at->offset);
            if (r == ROLE_Z_DGAMMA || r == ROLE_Z_DBETA)
                assert_true(at->offset >= (size_t)s->grad_end * sizeof(float));
            else
                assert_in_range(at->offset, s->grad_begin * (int64_t)sizeof(float),
                                s->grad_end * (int64_t)sizeof(float) - (int64_t)at->desc.bytes);
        }
    }
    for (int i = 0; i < g->n_params; i++)
        if (writers[i] != param_is_trained(&g->param[i]))
            fail_msg("%s: %d steps write the gradient of '%s'", g->arch, writers[i],
                     g->param[i].name);
    free(writers);
}

/* Gradients cover the buffer without gaps, in order. */
static void check_gradients(const struct network *net)
{
    for (int k = TRAIN; k <= TAIL; k++) {
        check_ranges(net->program[k]);
        check_writers(net->program[k]);
    }
    const struct program *eval = net->program[EVAL];
    for (int i = 0; i < eval->n_steps; i++) {
        assert_in_range(eval->step[i].phase, PHASE_INPUT, PHASE_LOSS);
        assert_int_equal(eval->step[i].grad_begin, eval->step[i].grad_end);
    }
}

/* No two parameters or statistics share memory. */
static void check_placements(const struct network *net)
{
    const struct graph *g = net->graph;
    for (int i = 0; i < g->n_params; i++) {
        const struct placement *a = &net->place[i];
        bool trained = param_is_trained(&g->param[i]);
        size_t room = trained ? net->flat_bytes : net->stats_bytes;
        assert_int_equal(a->offset % PLANNED_ALIGN, 0);
        assert_true(a->desc.bytes >= (size_t)param_count(&g->param[i]) * sizeof(float));
        assert_true(a->offset + a->desc.bytes <= room);
        for (int j = 0; j < i; j++) {
            const struct placement *b = &net->place[j];
            if (param_is_trained(&g->param[j]) == trained)
                assert_true(a->offset + a->desc.bytes <= b->offset ||
                            b->offset + b->desc.bytes <= a->offset);
        }
    }
}

/* ---- all checks ---- */

/* Planning takes longer than checking. Each plan therefore goes through all checks at once. */
static void check_plan(const struct network *net)
{
    check_network_data_flow(net);
    check_pointers(net);
    check_arena(net);
    check_gradients(net);
    check_placements(net);
}

static void every_plan_is_sound(void **state)
{
    (void)state;
    planned_for_all(check_plan);
}

/* LARS applies to the weights of convolution and linear layers, with a segment for each. Biases and
 * batch norm parameters are excluded. */
static void each_weight_has_its_own_lars_segment(void **state)
{
    (void)state;
    static const struct program_config config = {
        .batch = 2, .train = true, .std = {1, 1, 1}, .lars = 0.001f};
    struct net_rig r;
    int n_lars = 0;
    net_rig_open(&r, "cpu", "resnet8", 10, 32, &config, 1);
    const struct network *net = r.net;
    for (int k = 0; k < net->n_trained; k++) {
        const struct placement *at = &net->place[net->order[k]];
        bool weight = r.graph->param[net->order[k]].ndim > 1;
        int64_t begin = (int64_t)(at->offset / sizeof(float));
        const struct sgd_segment *s = net->segment;
        while (s->end <= begin)
            s++;
        assert_true(s->trust == (weight ? config.lars : 0));
        if (weight)
            assert_int_equal(s->begin, begin);
        n_lars += weight;
    }
    for (int i = 0; i < net->n_segments; i++)
        n_lars -= net->segment[i].trust > 0;
    assert_int_equal(n_lars, 0);
    net_rig_close(&r);
}

/* Planning the same network twice gives the same plan. Records of two runs are comparable only
 * then. */
static void planning_is_deterministic(void **state)
{
    (void)state;
    struct net_rig a, b;
    struct policy policy;
    assert_ok(policy_find("O1", -1, &policy));
    planned_open(&a, "cpu", "resnet50", &policy, false);
    planned_open(&b, "cpu", "resnet50", &policy, false);
    for (int k = 0; k < N_PROGRAMS; k++) {
        const struct program *p = a.net->program[k], *q = b.net->program[k];
        assert_int_equal(p->n_steps, q->n_steps);
        assert_int_equal(p->n_values, q->n_values);
        for (int v = 0; v < p->n_values; v++)
            assert_int_equal(p->value[v].offset, q->value[v].offset);
        for (int i = 0; i < p->n_steps; i++) {
            assert_int_equal(p->step[i].plan->desc.kind, q->step[i].plan->desc.kind);
            assert_string_equal(p->step[i].plan->impl, q->step[i].plan->impl);
        }
    }
    net_rig_close(&a);
    net_rig_close(&b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_is_sound),
        cmocka_unit_test(each_weight_has_its_own_lars_segment),
        cmocka_unit_test(planning_is_deterministic),
    };
    return cmocka_run_group_tests_name("lowering", tests, NULL, NULL);
}
