/* Tests programs as recorded graphs, weight gradients on a second stream and early launches, on an
 * asynchronous device. None of them may change a bit of the weights. */
#include "model/exchange.h"
#include "model/program.h"
#include "net_rig.h"
#include "tests/kernels/stream_backend.h"

enum { BATCH = 2, SIDE = 8, CLASSES = 3, STEPS = 6, ENDS = 2 };

struct announced {
    int n;
    int64_t end; /* of the last range */
};

static void open_configured(struct net_rig *r, const struct backend *b, const char *arch,
                            const struct program_config *config)
{
    struct program_config c = *config;
    struct device *dev;
    c.batch = BATCH;
    c.train = true;
    c.momentum = 0.9f;
    for (int i = 0; i < 3; i++)
        c.std[i] = 1;
    assert_ok(b->open(b, 0, 1, &dev));
    net_rig_open_on(r, dev, net_rig_graph(arch, CLASSES, SIDE), &c, 1);
    assert_ok(network_init(r->net, 1));
}

static enum status announced(void *context, int64_t begin, int64_t end)
{
    struct announced *a = context;
    assert_int_equal(begin, a->end);
    a->n++;
    a->end = end;
    return STATUS_OK;
}

static int64_t gradients_of(const struct net_rig *r)
{
    size_t bytes;
    network_flat(r->net, VALUE_GRADIENT, &bytes);
    return (int64_t)(bytes / sizeof(float));
}

/* Returns how many ranges of gradients were announced. They must follow each other, and cover the
 * buffer. */
static int step(struct net_rig *r, int number)
{
    static uint8_t pixels[BATCH * SIDE * SIDE * 3];
    static const int32_t label[BATCH] = {2, 0};
    struct program *p = network_program(r->net, 0);
    const struct step_state state = {
        .step = (uint64_t)number, .lr = 0.1f, .loss_scale = 1, .grad_scale = 1};
    struct announced a = {0};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37 + (size_t)number * 11);
    assert_ok(program_state(p, &state));
    assert_ok(program_input(p, pixels, label));
    for (int phase = PHASE_INPUT; phase <= PHASE_LOSS; phase++)
        assert_ok(program_run(p, (enum phase)phase));
    assert_ok(program_backward(p, announced, &a));
    assert_ok(program_run(p, PHASE_CHECK));
    assert_ok(program_run(p, PHASE_UPDATE));
    assert_ok(program_wait(p));
    assert_int_equal(a.end, gradients_of(r));
    return a.n;
}

/* The reference after STEPS steps, and the ranges that it announces in a step: one for each
 * layer. */
static struct net_rig reference;
static int layers;

static int open_reference(void **state)
{
    const struct backend *ref;
    assert_ok(backend_find("ref", &ref));
    open_configured(&reference, ref, "resnet8", &(struct program_config){0});
    for (int i = 0; i < STEPS; i++)
        layers = step(&reference, i);
    return 0;
}

static int close_reference(void **state)
{
    net_rig_close(&reference);
    return 0;
}

/* How often the second stream and early launches are used. */
enum when { NEVER, ALWAYS, EVERY_SECOND_STEP };

static const struct variant {
    bool graphs;
    bool two_ranges; /* instead of a range for each layer */
    bool planned;    /* for a second stream */
    enum when second_stream;
} variants[] = {
    {false, true, false, NEVER},
    {true, true, false, NEVER},
    {true, false, false, NEVER},
    {true, true, false, ALWAYS}, /* without a plan for it, there is no second stream */
    {false, true, true, ALWAYS},
    {true, true, true, ALWAYS},
    {false, true, true, EVERY_SECOND_STEP},
    {true, true, true, EVERY_SECOND_STEP},
};

static void check_variant(const struct variant *v)
{
    struct stream_backend b;
    struct net_rig r;
    const struct program_config c = {.graphs = v->graphs, .wgrad_stream = v->planned};
    stream_backend_make(&b);
    open_configured(&r, &b.base, "resnet8", &c);
    assert_int_equal(network_has_wgrad_stream(r.net), v->planned);
    const int64_t count = gradients_of(&r), end[ENDS] = {count / 3, count};
    if (v->two_ranges)
        program_announce(network_program(r.net, 0), end, ENDS);
    for (int i = 0; i < STEPS; i++) {
        network_use_wgrad_stream(r.net, v->second_stream == ALWAYS ||
                                            (v->second_stream == EVERY_SECOND_STEP && i % 2));
        assert_int_equal(step(&r, i), v->two_ranges ? ENDS : layers);
    }
    assert_null(network_graphs_lost(r.net));
    assert_true((stream_backend_counts(r.dev).launched > 0) == v->graphs);
    net_rig_assert_same(&reference, &r, VALUE_WEIGHT);
    net_rig_close(&r);
}

static void no_bit_changes(void **state)
{
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        check_variant(&variants[i]);
}

/* Steps with early launches (programmatic dependent launch) have separate graphs, and both kinds of
 * graphs are kept. A device without early launches must ignore the setting. */
static void with_early_launches(void **state)
{
    for (int can = 0; can < 2; can++) {
        struct stream_backend b;
        struct net_rig r;
        const struct program_config c = {.graphs = true, .wgrad_stream = true};
        int recorded[STEPS];
        stream_backend_make(&b);
        b.base.pdl = can ? b.base.pdl : NULL;
        open_configured(&r, &b.base, "resnet8", &c);
        assert_int_equal(network_has_pdl(r.net), can);
        network_use_wgrad_stream(r.net, true);
        for (int i = 0; i < STEPS; i++) { /* the first step of each kind records nothing */
            network_use_pdl(r.net, i == 2 || i == 3);
            assert_int_equal(r.net->stream->pdl, can && (i == 2 || i == 3));
            assert_int_equal(r.net->wgrad.stream->pdl, r.net->stream->pdl);
            step(&r, i);
            recorded[i] = stream_backend_counts(r.dev).recorded;
        }
        assert_true(recorded[1] > 0);
        assert_int_equal(recorded[3], can ? 2 * recorded[1] : recorded[1]);
        assert_int_equal(recorded[5], recorded[3]);
        net_rig_assert_same(&reference, &r, VALUE_WEIGHT);
        net_rig_close(&r);
    }
}

/* --- memory of the second stream --- */

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

/* Fusion changes the order of steps, and lets more values share memory. */
static void second_stream_has_its_memory(void **state)
{
    for (int fuse = FUSE_NONE; fuse < FUSE_COUNT; fuse++) {
        struct stream_backend b;
        struct net_rig r;
        const struct program_config c = {.fuse = (enum fuse)fuse, .wgrad_stream = true};
        stream_backend_make(&b);
        open_configured(&r, &b.base, fuse == FUSE_ALL ? "resnet50" : "resnet8", &c);
        assert_true(check_memory(network_program(r.net, 0)) > (fuse == FUSE_ALL ? 40 : 3));
        net_rig_close(&r);
    }
}

/* --- failures of recording --- */

/* Opens a network with graphs on an asynchronous device. */
static void open_failing(struct net_rig *r, struct stream_backend *b,
                         const struct stream_fault *fault)
{
    stream_backend_make(b);
    stream_backend_fail(b, fault);
    open_configured(r, &b->base, "resnet8", &(struct program_config){.graphs = true});
}

/* After the failure of a call that only graphs use, in any phase, the steps continue without
 * graphs. */
static void graphs_are_given_up(void **state)
{
    static const struct {
        struct stream_fault fault;
        const char *phase;
    } cases[] = {
        {{STREAM_CALL_CAPTURE_BEGIN, 1, false, STATUS_LIBRARY}, "input"},
        {{STREAM_CALL_CAPTURE_END, 1, false, STATUS_OOM}, "input"},
        {{STREAM_CALL_CAPTURE_END, 2, false, STATUS_LIBRARY}, "forward"},
        {{STREAM_CALL_LAUNCH, 3, false, STATUS_LIBRARY}, "loss"},
        {{STREAM_CALL_CAPTURE_BEGIN, 4, false, STATUS_LIBRARY}, "backward"},
        {{STREAM_CALL_CAPTURE_END, 5, false, STATUS_LIBRARY}, "update"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct stream_backend b;
        struct net_rig r;
        open_failing(&r, &b, &cases[k].fault);
        const int64_t end[] = {gradients_of(&r)};
        program_announce(network_program(r.net, 0), end, 1);
        for (int i = 0; i < STEPS; i++) {
            assert_true((network_graphs_lost(r.net) != NULL) == (i > 1));
            step(&r, i);
        }
        assert_non_null(strstr(network_graphs_lost(r.net), cases[k].phase));
        assert_int_equal(stream_backend_counts(r.dev).launched, cases[k].fault.number - 1);
        net_rig_assert_same(&reference, &r, VALUE_WEIGHT);
        net_rig_close(&r);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bit_changes),
        cmocka_unit_test(with_early_launches),
        cmocka_unit_test(second_stream_has_its_memory),
        cmocka_unit_test(graphs_are_given_up),
    };
    return cmocka_run_group_tests_name("replay", tests, open_reference, close_reference);
}
