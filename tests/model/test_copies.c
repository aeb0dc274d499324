/* Tests half-precision copies of weights, which the optimizer writes for the forward and backward
 * passes.
 *
 *     test_copies [DEVICE]
 *
 * Without a device, runs on a reference whose backend claims hardware support for 16-bit types. */
#include "model/exchange.h"
#include "planned.h"
#include "step_tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2, SIDE = 16, CLASSES = 10, RECORDS_MAX = 64 };

static const char *trains_on; /* NULL: the reference */

/* A reference that claims support for 16-bit types, with or without an optimizer that writes
 * copies. */
struct narrow_ref {
    struct backend backend;
    struct op_record record[RECORDS_MAX];
};

static bool has_all(struct device *dev, enum dtype type)
{
    (void)dev;
    return type != DTYPE_TF32;
}

static enum status refuse_copies(struct device *dev, const struct op_desc *desc,
                                 struct op_plan **plan)
{
    if (desc->t[ROLE_WCOPY].ndim)
        return status_fail(STATUS_UNSUPPORTED, "no copies here");
    /* the record whose plan function accepts any operation */
    for (int i = 0; i < dev->backend->n_records; i++)
        if (op_in(OP_CHECK_FINITE, dev->backend->record[i].kinds))
            return dev->backend->record[i].plan(dev, desc, plan);
    return STATUS_INVALID;
}

static void narrow_ref_make(struct narrow_ref *n, struct device *dev, bool copies)
{
    n->backend = *dev->backend;
    n->backend.native = has_all;
    assert_in_range(n->backend.n_records, 1, RECORDS_MAX - 1);
    memcpy(n->record, n->backend.record, (size_t)n->backend.n_records * sizeof n->record[0]);
    n->backend.record = n->record;
    for (int i = 0; i < n->backend.n_records && !copies; i++)
        n->record[i].kinds &= ~OP_SET(SGD);
    if (!copies)
        n->record[n->backend.n_records++] =
            (struct op_record){OP_SET(SGD), ~0u, ~0u, refuse_copies};
    dev->backend = &n->backend;
}

struct rig {
    struct net_rig net;
    struct narrow_ref ref;
    struct policy policy;
};

static void open_rig(struct rig *r, const char *precision, bool copies)
{
    struct program_config c[2] = {{.batch = BATCH, .train = true, .check_finite = true},
                                  {.batch = BATCH}};
    assert_ok(policy_find(precision, -1, &r->policy));
    for (int i = 0; i < 2; i++) {
        c[i].policy = r->policy;
        c[i].float_input = true;
        c[i].fuse = FUSE_NONE;
        c[i].momentum = 0.9f;
    }
    assert_ok(device_open(trains_on ? trains_on : "ref", 1, &r->net.dev));
    if (!trains_on)
        narrow_ref_make(&r->ref, r->net.dev, copies);
    assert_ok(graph_build("resnet8", CLASSES, SIDE, &r->net.graph));
    assert_ok(network_open(r->net.dev, r->net.graph, c, 2, &r->net.net));
    net_rig_fill(&r->net);
}

/* Runs a training step. If `overflows` is true, its gradients overflow. */
static void step(struct rig *r, int number, bool overflows)
{
    struct program *p = network_program(r->net.net, 0);
    const struct step_state state = {
        .step = (uint64_t)number, .lr = 0.05f, .loss_scale = 8, .grad_scale = 0.125f};
    net_rig_input(&r->net, p, number);
    assert_ok(program_state(p, &state));
    for (int phase = PHASE_INPUT; phase < PHASE_COUNT; phase++) {
        assert_ok(program_run(p, (enum phase)phase));
        if (phase == PHASE_BACKWARD && overflows)
            assert_ok(program_poison(p));
    }
    assert_ok(program_wait(p));
}

static bool multiplies(const struct step *s)
{
    enum op_kind kind = s->plan->desc.kind;
    return kind == OP_CONV_FWD || kind == OP_CONV_BWD_DATA || kind == OP_LINEAR_FWD ||
           kind == OP_LINEAR_BWD_DATA;
}

/* ---- plans ---- */

static int casts_in(const struct program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_steps; i++)
        n += p->step[i].ref[ROLE_X].space == SPACE_WEIGHT;
    return n;
}

/* Number of cast parameters. ResNet-8 has 9 convolutions, and a linear layer with a bias. */
enum { CAST = 11 };

static void check_copied(const struct rig *r)
{
    const struct network *net = r->net.net;
    assert_int_equal(net->copy_type, r->policy.weight);
    for (int k = 0; k < net->n_programs; k++) {
        const struct program *p = net->program[k];
        assert_int_equal(casts_in(p), 0);
        for (int i = 0; i < p->n_steps; i++) {
            const struct step *s = &p->step[i];
            assert_non_null(s->plan);
            if (multiplies(s))
                assert_int_equal(s->ref[ROLE_W].space, SPACE_COPY);
            if (s->plan->desc.kind == OP_SGD)
                assert_int_equal(s->plan->desc.t[ROLE_WCOPY].type, r->policy.weight);
        }
    }
}

static const char *const precisions[] = {"O2", "O3", "bf16"};
static int n_precisions = sizeof precisions / sizeof *precisions;

static void no_pass_casts(void **state)
{
    (void)state;
    for (int i = 0; i < n_precisions; i++) {
        struct rig r;
        open_rig(&r, precisions[i], true);
        check_copied(&r);
        net_rig_close(&r.net);
    }
}

static void an_optimizer_without_copies_leaves_casts(void **state)
{
    struct rig r;
    (void)state;
    open_rig(&r, "O2", false);
    assert_false(r.net.net->has_copies);
    for (int k = 0; k < 2; k++)
        assert_int_equal(casts_in(r.net.net->program[k]), CAST);
    net_rig_close(&r.net);
}

/* ---- contents ---- */

/* A weight or bias that a step reads must equal the optimizer's value, rounded. */
static void check_read(const struct rig *r, const struct step *s, enum role role)
{
    int param = s->ref[role].index;
    int64_t n = param_count(&r->net.graph->param[param]);
    float *kept = net_rig_get(&r->net, VALUE_WEIGHT, param);
    float *read = step_tensor_read(s, network_stream(r->net.net), role);
    for (int64_t i = 0; i < n; i++)
        if (read[i] != dtype_round(r->policy.weight, kept[i]))
            fail_msg("%s of '%s' reads %a of '%s', not the rounded %a", op_str(s->plan->desc.kind),
                     s->layer, (double)read[i], r->net.graph->param[param].name, (double)kept[i]);
    free(kept);
    free(read);
}

/* Checks every copy that a step of the programs reads, after the input phase. */
static void check_fresh(struct rig *r)
{
    for (int k = 0; k < 2; k++) {
        struct program *p = network_program(r->net.net, k);
        net_rig_input(&r->net, p, 0);
        assert_ok(program_run(p, PHASE_INPUT));
        assert_ok(program_wait(p));
        for (int i = 0; i < p->n_steps; i++)
            for (int role = ROLE_W; role <= ROLE_B; role++)
                if (p->step[i].ref[role].space == SPACE_COPY)
                    check_read(r, &p->step[i], (enum role)role);
    }
}

/* Replaces the weights, as loading a checkpoint does. */
static void set_weights(struct rig *r, float factor)
{
    for (int i = 0; i < r->net.graph->n_params; i++) {
        int64_t n = param_count(&r->net.graph->param[i]);
        float *w = net_rig_get(&r->net, VALUE_WEIGHT, i);
        for (int64_t k = 0; k < n; k++)
            w[k] *= factor;
        assert_ok(network_set(r->net.net, VALUE_WEIGHT, i, w));
        free(w);
    }
}

/* Copies all weights of another network, as between replicas. */
static void take_weights(struct rig *to, struct rig *from)
{
    const struct backend *b = to->net.dev->backend;
    size_t bytes;
    const void *src = network_flat(from->net.net, VALUE_WEIGHT, &bytes);
    void *dst = network_flat(to->net.net, VALUE_WEIGHT, &bytes);
    void *host = malloc(bytes);
    assert_non_null(host);
    assert_ok(b->download(network_stream(from->net.net), host, src, bytes));
    assert_ok(b->stream_sync(network_stream(from->net.net)));
    assert_ok(b->upload(network_stream(to->net.net), dst, host, bytes));
    assert_ok(b->stream_sync(network_stream(to->net.net)));
    network_touched(to->net.net);
    free(host);
}

static void copies_are_never_stale(void **state)
{
    (void)state;
    for (int i = 0; i < n_precisions; i++) {
        struct rig r, other;
        open_rig(&r, precisions[i], true);
        check_fresh(&r);
        step(&r, 0, false);
        check_fresh(&r);
        step(&r, 1, true);
        check_fresh(&r);
        set_weights(&r, 1.25f);
        check_fresh(&r);
        open_rig(&other, precisions[i], true);
        step(&other, 0, false);
        take_weights(&r, &other);
        check_fresh(&r);
        step(&r, 2, false);
        check_fresh(&r);
        net_rig_close(&other.net);
        net_rig_close(&r.net);
    }
}

static void copies_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < n_precisions; i++) {
        struct rig r[2];
        for (int k = 0; k < 2; k++) {
            open_rig(&r[k], precisions[i], k == 0);
            for (int n = 0; n < 3; n++)
                step(&r[k], n, n == 1);
        }
        for (int p = 0; p < r[0].net.graph->n_params; p++) {
            size_t bytes = (size_t)param_count(&r[0].net.graph->param[p]) * sizeof(float);
            float *a = net_rig_get(&r[0].net, VALUE_WEIGHT, p);
            float *b = net_rig_get(&r[1].net, VALUE_WEIGHT, p);
            assert_memory_equal(a, b, bytes);
            free(a);
            free(b);
        }
        net_rig_close(&r[0].net);
        net_rig_close(&r[1].net);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest anywhere[] = {
        cmocka_unit_test(no_pass_casts),
        cmocka_unit_test(copies_are_never_stale),
    };
    static const struct CMUnitTest on_the_reference[] = {
        cmocka_unit_test(an_optimizer_without_copies_leaves_casts),
        cmocka_unit_test(copies_change_no_bit),
    };
    trains_on = argc > 1 ? argv[1] : NULL;
    n_precisions = trains_on ? 1 : n_precisions; /* the fake GPU is slow */
    int failed = cmocka_run_group_tests_name("copies", anywhere, NULL, NULL);
    if (!trains_on)
        failed +=
            cmocka_run_group_tests_name("copies, on the reference", on_the_reference, NULL, NULL);
    return failed;
}
