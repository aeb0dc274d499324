/* Tests programs as recorded graphs: how many graphs are recorded, when they are launched, and
 * which gradients are announced between them. Recording must not change a bit of the weights. */
#include "model/exchange.h"
#include "model/program.h"
#include "tests/kernels/stream_backend.h"
#include "tests/model/net_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2, SIDE = 8, CLASSES = 3, STEPS = 4, ENDS = 2 };

struct rig {
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct step_state state; /* of the current step */
    int announced;
    int64_t begin[256], end[256]; /* gradient ranges announced in the last step */
};

static void open_configured(struct rig *r, const struct backend *b, const char *arch,
                            const struct program_config *config)
{
    struct program_config c = *config;
    c.batch = BATCH;
    c.train = true;
    c.momentum = 0.9f;
    for (int i = 0; i < 3; i++)
        c.std[i] = 1;
    memset(r, 0, sizeof *r);
    assert_ok(b->open(b, 0, 1, &r->dev));
    assert_ok(graph_build(arch, CLASSES, SIDE, &r->graph));
    assert_ok(network_open(r->dev, r->graph, &c, 1, &r->net));
    assert_ok(network_init(r->net, 1));
}

static void open_rig(struct rig *r, const struct backend *b, bool graphs)
{
    open_configured(r, b, "resnet8", &(struct program_config){.graphs = graphs});
}

static void close_rig(struct rig *r)
{
    network_close(r->net);
    graph_free(r->graph);
    device_close(r->dev);
}

static enum status announced(void *context, int64_t begin, int64_t end)
{
    struct rig *r = context;
    assert_in_range(r->announced, 0, 255);
    r->begin[r->announced] = begin;
    r->end[r->announced++] = end;
    return STATUS_OK;
}

static void step(struct rig *r, int number)
{
    static uint8_t pixels[BATCH * SIDE * SIDE * 3];
    static const int32_t label[BATCH] = {2, 0};
    struct program *p = network_program(r->net, 0);
    r->state =
        (struct step_state){.step = (uint64_t)number, .lr = 0.1f, .loss_scale = 1, .grad_scale = 1};
    r->announced = 0;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 + (size_t)number * 11);
    assert_ok(program_state(p, &r->state));
    assert_ok(program_input(p, pixels, label));
    assert_ok(program_run(p, PHASE_INPUT));
    assert_ok(program_run(p, PHASE_FORWARD));
    assert_ok(program_run(p, PHASE_LOSS));
    assert_ok(program_backward(p, announced, r));
    assert_ok(program_run(p, PHASE_CHECK));
    assert_ok(program_run(p, PHASE_UPDATE));
    assert_ok(program_wait(p));
}

static void same_weights(struct rig *a, struct rig *b)
{
    for (int i = 0; i < a->graph->n_params; i++) {
        size_t bytes = (size_t)param_count(&a->graph->param[i]) * sizeof(float);
        float *x = malloc(bytes), *y = malloc(bytes);
        assert_ok(network_get(a->net, VALUE_WEIGHT, i, x));
        assert_ok(network_get(b->net, VALUE_WEIGHT, i, y));
        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
}

static int64_t gradients_of(struct rig *r)
{
    size_t bytes;
    network_flat(r->net, VALUE_GRADIENT, &bytes);
    return (int64_t)(bytes / sizeof(float));
}

/* The announced ranges follow each other, and cover the buffer. */
static void covers(const struct rig *r, int64_t count)
{
    int64_t at = 0;
    for (int i = 0; i < r->announced; i++) {
        assert_int_equal(r->begin[i], at);
        at = r->end[i];
    }
    assert_int_equal(at, count);
}

static void open_reference(struct rig *r)
{
    const struct backend *b;
    assert_ok(backend_find("ref", &b));
    open_rig(r, b, true);
    for (int i = 0; i < STEPS; i++)
        step(r, i);
}

static void replays(bool graphs)
{
    struct stream_backend b;
    struct rig want, got;
    stream_backend_make(&b);
    open_reference(&want);
    open_rig(&got, &b.base, graphs);
    const int64_t count = gradients_of(&got), end[ENDS] = {count / 3, count};
    program_announce(network_program(got.net, 0), end, ENDS);
    for (int i = 0; i < STEPS; i++) {
        step(&got, i);
        assert_int_equal(got.announced, ENDS);
        assert_true(got.end[0] >= end[0]);
        covers(&got, count);
        /* Six graphs: input, forward, loss, update, and two for the backward phase. */
        struct stream_counts n = stream_backend_counts(got.dev);
        assert_int_equal(n.recorded, graphs && i > 0 ? 6 : 0);
        assert_int_equal(n.launched, graphs ? 6 * i : 0);
    }
    same_weights(&want, &got);
    close_rig(&want);
    close_rig(&got);
}

static void with_graphs(void **state)
{
    (void)state;
    replays(true);
}

static void without_graphs(void **state)
{
    (void)state;
    replays(false);
}

/* By default, the range of every layer is announced. */
static void layer_by_layer(void **state)
{
    (void)state;
    struct stream_backend b;
    struct rig want, got;
    stream_backend_make(&b);
    open_reference(&want);
    open_rig(&got, &b.base, true);
    for (int i = 0; i < STEPS; i++)
        step(&got, i);
    assert_int_equal(got.announced, want.announced);
    assert_true(got.announced > ENDS);
    covers(&got, gradients_of(&got));
    same_weights(&want, &got);
    close_rig(&want);
    close_rig(&got);
}

/* --- weight gradients on a second stream --- */

static bool overlaps(const struct program *p, struct ref a, struct ref b)
{
    if (a.space != SPACE_VALUE || b.space != SPACE_VALUE)
        return false;
    const struct value *v = &p->value[a.index], *w = &p->value[b.index];
    return v->offset < w->offset + w->desc.bytes && w->offset < v->offset + v->desc.bytes;
}

/* Checks the memory of each step `s` on the second stream, from the start of `s` to its join. In
 * this time, no step of the main stream may write memory that `s` uses, or use memory that `s`
 * writes. Returns the number of steps on the second stream. */
static int check_memory(const struct program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        uint64_t writes = op_roles(s->plan->desc.kind).writes;
        n += s->join > 0;
        for (int k = i + 1; k < s->join; k++) {
            const struct step *t = &p->step[k];
            uint64_t later = op_roles(t->plan->desc.kind).writes;
            for (int a = 0; a < ROLE_COUNT; a++)
                for (int b = 0; b < ROLE_COUNT; b++)
                    if (writes >> a & 1 || later >> b & 1)
                        assert_false(overlaps(p, s->ref[a], t->ref[b]));
            if (s->plan->workspace && t->plan->workspace)
                assert_ptr_not_equal(s->arg[ROLE_WORKSPACE], t->arg[ROLE_WORKSPACE]);
        }
    }
    return n;
}

/* Checks that a second stream changes no bit, in whatever order the streams run. `toggled`: only
 * every second training step uses the second stream. */
static void second_stream(bool graphs, bool toggled)
{
    struct stream_backend b;
    struct rig want, got;
    const struct backend *ref;
    const struct program_config c = {.graphs = graphs, .wgrad_stream = true};
    stream_backend_make(&b);
    assert_ok(backend_find("ref", &ref));
    open_configured(&want, ref, "resnet8", &(struct program_config){0});
    open_configured(&got, &b.base, "resnet8", &c);
    assert_true(network_has_wgrad_stream(got.net));
    assert_true(check_memory(network_program(got.net, 0)) > 3);
    const int64_t count = gradients_of(&got), end[ENDS] = {count / 3, count};
    program_announce(network_program(got.net, 0), end, ENDS);
    for (int i = 0; i < STEPS + 1; i++) {
        step(&want, i);
        network_use_wgrad_stream(got.net, !toggled || i % 2 == 1);
        step(&got, i);
        covers(&got, count);
    }
    assert_null(network_graphs_lost(got.net));
    assert_true(!graphs || stream_backend_counts(got.dev).launched > 0);
    same_weights(&want, &got);
    close_rig(&want);
    close_rig(&got);
}

static void with_a_second_stream(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        second_stream(i & 1, i & 2);
}

/* Checks that steps with early launches (programmatic dependent launch) have separate graphs, and
 * that both kinds of graphs are kept. A device without early launches must ignore the setting. */
static void with_early_launches(void **state)
{
    (void)state;
    for (int can = 0; can < 2; can++) {
        struct stream_backend b;
        struct rig want, got;
        const struct backend *ref;
        const struct program_config c = {.graphs = true, .wgrad_stream = true};
        stream_backend_make(&b);
        b.base.pdl = can ? b.base.pdl : NULL;
        assert_ok(backend_find("ref", &ref));
        open_configured(&want, ref, "resnet8", &(struct program_config){0});
        open_configured(&got, &b.base, "resnet8", &c);
        assert_int_equal(network_has_pdl(got.net), can);
        network_use_wgrad_stream(got.net, true);
        int recorded[6];
        for (int i = 0; i < 6; i++) { /* the first step records nothing */
            network_use_pdl(got.net, i == 2 || i == 3);
            assert_int_equal(got.net->stream->pdl, can && (i == 2 || i == 3));
            assert_int_equal(got.net->wgrad.stream->pdl, got.net->stream->pdl);
            step(&want, i);
            step(&got, i);
            recorded[i] = stream_backend_counts(got.dev).recorded;
        }
        assert_int_equal(recorded[0], 0);
        assert_true(recorded[1] > 0);
        assert_int_equal(recorded[2], recorded[1]); /* nor does the first one with early launches */
        assert_int_equal(recorded[3], can ? 2 * recorded[1] : recorded[1]);
        assert_int_equal(recorded[5], recorded[3]);
        same_weights(&want, &got);
        close_rig(&want);
        close_rig(&got);
    }
}

/* Fusion changes the order of steps, and lets more values share memory. Checks the memory of the
 * second stream at each level. */
static void second_stream_has_its_memory(void **state)
{
    (void)state;
    static const char *const arch[] = {"resnet50", "resnet18"};
    for (int fuse = FUSE_NONE; fuse < FUSE_COUNT; fuse++)
        for (int i = 0; i < 2; i++) {
            struct stream_backend b;
            struct rig r;
            const struct program_config c = {.fuse = (enum fuse)fuse, .wgrad_stream = true};
            stream_backend_make(&b);
            open_configured(&r, &b.base, arch[i], &c);
            assert_true(check_memory(network_program(r.net, 0)) > (i ? 12 : 40));
            close_rig(&r);
        }
}

/* Without a program that plans for a second stream, network_use_wgrad_stream has no effect. */
static void without_a_second_stream(void **state)
{
    (void)state;
    struct stream_backend b;
    struct rig want, got;
    stream_backend_make(&b);
    open_reference(&want);
    open_rig(&got, &b.base, true);
    assert_false(network_has_wgrad_stream(got.net));
    network_use_wgrad_stream(got.net, true);
    for (int i = 0; i < STEPS; i++)
        step(&got, i);
    same_weights(&want, &got);
    close_rig(&want);
    close_rig(&got);
}

/* --- failures of recording --- */

static enum status refuse(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)plan;
    (void)arg;
    (void)s;
    return status_fail(STATUS_LIBRARY, "no such kernel");
}

/* Checks that the steps continue without graphs after a failure of a call that only graphs use. */
static void gives_up(const struct stream_fault *fault, const char *phase)
{
    struct stream_backend b;
    struct rig want, got;
    stream_backend_make(&b);
    stream_backend_fail(&b, fault);
    open_reference(&want);
    open_rig(&got, &b.base, true);
    const int64_t end[] = {gradients_of(&got)};
    program_announce(network_program(got.net, 0), end, 1);
    for (int i = 0; i < STEPS; i++) {
        assert_true((network_graphs_lost(got.net) != NULL) == (i > 1));
        step(&got, i);
    }
    assert_non_null(strstr(network_graphs_lost(got.net), phase));
    assert_non_null(strstr(network_graphs_lost(got.net), "as configured"));
    struct stream_counts n = stream_backend_counts(got.dev);
    assert_int_equal(n.launched, fault->number - 1);
    same_weights(&want, &got);
    close_rig(&want);
    close_rig(&got);
}

/* Tests the failure of each call that only graphs use, in each phase that has operations. */
static void graphs_are_given_up(void **state)
{
    (void)state;
    static const enum stream_call call[] = {STREAM_CALL_CAPTURE_BEGIN, STREAM_CALL_CAPTURE_END,
                                            STREAM_CALL_LAUNCH};
    static const char *const phase[] = {"input", "forward", "loss", "backward", "update"};
    for (size_t i = 0; i < sizeof call / sizeof *call; i++)
        for (int n = 1; n <= 5; n++)
            gives_up(&(struct stream_fault){call[i], n, false, STATUS_LIBRARY}, phase[n - 1]);
    gives_up(&(struct stream_fault){STREAM_CALL_CAPTURE_END, 1, false, STATUS_OOM}, phase[0]);
}

/* An operation fails in a graph, and again when it is executed without a graph. The message must
 * name both failures. */
static void failures_are_reported(void **state)
{
    (void)state;
    struct stream_backend b;
    struct rig r;
    stream_backend_make(&b);
    open_rig(&r, &b.base, true);
    struct program *p = network_program(r.net, 0);
    step(&r, 0); /* nothing is recorded yet */
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].phase == PHASE_LOSS)
            p->step[i].plan->execute = refuse;
    assert_int_equal(program_run(p, PHASE_LOSS), STATUS_LIBRARY);
    assert_non_null(strstr(status_message(), "; then, without graphs: layer"));
    assert_non_null(strstr(network_graphs_lost(r.net), "the loss phase as a graph"));
    assert_non_null(strstr(network_graphs_lost(r.net), "no such kernel"));
    close_rig(&r);
}

/* Failures of the program itself (STATUS_INVALID) do not turn graphs off; they are reported. */
static void mistakes_stay(void **state)
{
    (void)state;
    struct stream_backend b;
    struct rig r;
    stream_backend_make(&b);
    stream_backend_fail(&b, &(struct stream_fault){STREAM_CALL_LAUNCH, 1, false, STATUS_INVALID});
    open_rig(&r, &b.base, true);
    step(&r, 0);
    assert_int_equal(program_run(network_program(r.net, 0), PHASE_INPUT), STATUS_INVALID);
    assert_null(network_graphs_lost(r.net));
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_graphs),
        cmocka_unit_test(without_graphs),
        cmocka_unit_test(layer_by_layer),
        cmocka_unit_test(with_a_second_stream),
        cmocka_unit_test(second_stream_has_its_memory),
        cmocka_unit_test(without_a_second_stream),
        cmocka_unit_test(with_early_launches),
        cmocka_unit_test(graphs_are_given_up),
        cmocka_unit_test(failures_are_reported),
        cmocka_unit_test(mistakes_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
