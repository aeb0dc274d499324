/* What data parallel training needs of a network: flat buffers that can be copied from one replica
 * to another, a loss computed elsewhere, gradients announced as they are completed and rounded
 * before they are summed. */
#include "model/builder.h"
#include "model/exchange.h"
#include "model/loss_head.h"
#include "model/program.h"
#include "net_rig.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLASSES = 10, SIZE = 16, BATCH = 4 };

static const struct step_state plain_state = {.lr = 0.1f, .loss_scale = 1, .grad_scale = 1};

static struct program_config training(const char *precision)
{
    struct program_config c = {.batch = BATCH,
                               .train = true,
                               .float_input = true,
                               .no_dropout = true,
                               .label_smoothing = 0.1f,
                               .momentum = 0.9f};
    assert_ok(policy_find(precision, -1, &c.policy));
    return c;
}

/* Without batch norm, whose statistics depend on how a batch is split. */
static struct graph *draw_plain_graph(void)
{
    struct builder b = {.g = calloc(1, sizeof *b.g)};
    assert_non_null(b.g);
    strcpy(b.g->arch, "plain");
    b.g->classes = CLASSES;
    b.g->image_size = SIZE;
    const struct conv_spec spec = {.out = 16, .kernel = 3, .pad = 1, .bias = true};
    int x = builder_conv(builder_name(&b, "conv"), builder_input(&b), spec);
    x = builder_relu(builder_name(&b, "relu1"), x);
    x = builder_maxpool(builder_name(&b, "pool"), x, 3, 2, 1);
    x = builder_linear(builder_name(&b, "fc1"), builder_flatten(&b, x), 12, INIT_ZERO, INIT_ZERO);
    x = builder_relu(builder_name(&b, "relu2"), x);
    builder_linear(builder_name(&b, "fc2"), x, CLASSES, INIT_ZERO, INIT_ZERO);
    assert_ok(b.st);
    return b.g;
}

/* `arch` NULL: the plain graph. */
static void open_rig(struct net_rig *r, const char *device, const char *arch,
                     const struct program_config *config)
{
    assert_ok(device_open(device, 2, &r->dev));
    if (arch)
        assert_ok(graph_build(arch, CLASSES, SIZE, &r->graph));
    else
        r->graph = draw_plain_graph();
    assert_ok(network_open(r->dev, r->graph, config, 1, &r->net));
}

static void run_until(struct program *p, enum phase last)
{
    assert_ok(program_state(p, &plain_state));
    for (int phase = PHASE_INPUT; phase <= (int)last; phase++)
        assert_ok(program_run(p, (enum phase)phase));
}

/* ---- gradients as they are completed ---- */

struct watch {
    struct network *net;
    float *seen; /* each range as it was when it was announced */
    int64_t end;
    int calls, stop_after;
};

static enum status completed(void *context, int64_t begin, int64_t end)
{
    struct watch *w = context;
    size_t bytes;
    const float *flat = network_flat(w->net, VALUE_GRADIENT, &bytes);
    assert_int_equal(begin, w->end);
    assert_true(end > begin && end * (int64_t)sizeof(float) <= (int64_t)bytes);
    memcpy(w->seen + begin, flat + begin, (size_t)(end - begin) * sizeof(float));
    w->end = end;
    return ++w->calls == w->stop_after ? status_fail(STATUS_INTERRUPTED, "enough") : STATUS_OK;
}

static void check_announced(const char *device, const char *arch)
{
    struct program_config config = training("fp32");
    struct net_rig r;
    struct watch w = {0};
    size_t bytes;
    open_rig(&r, device, arch, &config);
    struct program *p = network_program(r.net, 0);
    const float *flat = network_flat(r.net, VALUE_GRADIENT, &bytes);
    net_rig_fill(&r);
    net_rig_input(&r, p, 0);
    run_until(p, PHASE_LOSS);
    w = (struct watch){.net = r.net, .seen = malloc(bytes)};
    assert_non_null(w.seen);
    assert_ok(program_backward(p, completed, &w));
    assert_int_equal(w.end * (int64_t)sizeof(float), bytes);
    assert_memory_equal(w.seen, flat, bytes); /* nothing was written after it was announced */

    /* The same as running the phase, which needs nobody to tell. */
    run_until(p, PHASE_LOSS);
    memset(network_flat(r.net, VALUE_GRADIENT, &bytes), 0, bytes);
    assert_ok(program_backward(p, NULL, NULL));
    assert_memory_equal(w.seen, flat, bytes);
    run_until(p, PHASE_BACKWARD);
    assert_memory_equal(w.seen, flat, bytes);
    free(w.seen);
    net_rig_close(&r);
}

static void gradients_are_announced_when_complete(void **state)
{
    (void)state;
    check_announced("cpu", "resnet8");
    check_announced("ref", "resnet8");
    check_announced("cpu", NULL);
}

static void a_failure_ends_the_backward_phase(void **state)
{
    (void)state;
    struct program_config config = training("fp32");
    struct net_rig r;
    size_t bytes;
    open_rig(&r, "cpu", "resnet8", &config);
    network_flat(r.net, VALUE_GRADIENT, &bytes);
    struct watch w = {.net = r.net, .seen = malloc(bytes), .stop_after = 2};
    assert_non_null(w.seen);
    net_rig_fill(&r);
    run_until(network_program(r.net, 0), PHASE_LOSS);
    assert_int_equal(program_backward(network_program(r.net, 0), completed, &w),
                     STATUS_INTERRUPTED);
    assert_string_equal(status_message(), "enough");
    assert_int_equal(w.calls, 2);
    free(w.seen);
    net_rig_close(&r);
}

/* ---- replicas ---- */

static void device_copy(const struct net_rig *from, void *to, const void *at, size_t bytes)
{
    struct stream *s = network_stream(from->net);
    assert_ok(from->dev->backend->copy(s, to, at, bytes));
    assert_ok(from->dev->backend->stream_sync(s));
}

/* Weights and statistics of `a` into `b`, by their flat buffers. */
static void replicate(const struct net_rig *a, const struct net_rig *b)
{
    size_t bytes, same;
    const void *from = network_flat(a->net, VALUE_WEIGHT, &bytes);
    void *to = network_flat(b->net, VALUE_WEIGHT, &same);
    assert_int_equal(bytes, same);
    device_copy(a, to, from, bytes);
    from = network_buffers(a->net, &bytes);
    to = network_buffers(b->net, &same);
    assert_int_equal(bytes, same);
    device_copy(a, to, from, bytes);
    network_touched(b->net);
}

/* A replica that got its weights as bytes computes what the first one does; in bf16 too, where the
 * passes read copies of them. */
static void replicas_compute_the_same(void **state)
{
    (void)state;
    static const char *const precision[] = {"fp32", "bf16"};
    for (int k = 0; k < 2; k++) {
        struct program_config config = training(precision[k]);
        float want[BATCH * CLASSES], got[BATCH * CLASSES];
        struct net_rig r[2];
        for (int i = 0; i < 2; i++)
            open_rig(&r[i], "cpu", "resnet8", &config);
        net_rig_fill(&r[0]);
        assert_ok(network_init(r[1].net, 1));
        for (int i = 1; i >= 0; i--) { /* the replica once with its own weights */
            net_rig_input(&r[i], network_program(r[i].net, 0), 0);
            run_until(network_program(r[i].net, 0), PHASE_UPDATE);
        }
        replicate(&r[0], &r[1]);
        for (int i = 0; i < 2; i++) {
            net_rig_input(&r[i], network_program(r[i].net, 0), 1);
            run_until(network_program(r[i].net, 0), PHASE_FORWARD);
            assert_ok(program_logits(network_program(r[i].net, 0), i ? got : want));
        }
        assert_memory_equal(got, want, sizeof want);
        for (int i = 0; i < 2; i++)
            net_rig_close(&r[i]);
    }
}

static uint64_t layout_hash(const struct net_rig *r)
{
    uint64_t hash;
    assert_ok(network_layout_hash(r->net, &hash));
    return hash;
}

/* Moves one parameter, and gives it another layout of the same size. */
static void check_layout_changes(const struct net_rig *r, struct placement *at)
{
    uint64_t before = layout_hash(r);
    struct placement was = *at;
    at->offset += 64;
    assert_true(layout_hash(r) != before);
    *at = was;
    at->desc.layout = at->desc.layout == LAYOUT_PLAIN ? LAYOUT_NHWC : LAYOUT_PLAIN;
    assert_true(layout_hash(r) != before);
    *at = was;
    assert_true(layout_hash(r) == before);
}

static void layouts_are_told_apart(void **state)
{
    (void)state;
    struct program_config config = training("fp32");
    struct net_rig a, b, ref;
    open_rig(&a, "cpu", "resnet8", &config);
    open_rig(&b, "cpu", "resnet8", &config);
    open_rig(&ref, "ref", "resnet8", &config);
    net_rig_fill(&a); /* values do not matter */
    assert_true(layout_hash(&a) == layout_hash(&b));
    for (int i = 0; i < b.graph->n_params; i += 5)
        check_layout_changes(&b, &b.net->place[i]);
    /* The reference keeps every weight plain, oneDNN none. */
    assert_true(layout_hash(&a) != layout_hash(&ref));
    net_rig_close(&ref);
    net_rig_close(&b);
    net_rig_close(&a);
}

/* A library's layouts are numbered as a device met them, so that the same layout may have another
 * number on another device. */
static void numbers_of_opaque_layouts_do_not_matter(void **state)
{
    (void)state;
    struct program_config config = training("fp32");
    struct net_rig alone, second;
    struct network *first;
    struct graph *other = draw_plain_graph();
    open_rig(&alone, "cpu", "resnet8", &config);
    assert_ok(device_open("cpu", 2, &second.dev));
    assert_ok(graph_build("resnet8", CLASSES, SIZE, &second.graph));
    assert_ok(network_open(second.dev, other, &config, 1, &first));
    assert_ok(network_open(second.dev, second.graph, &config, 1, &second.net));
    assert_true(layout_hash(&alone) == layout_hash(&second));
    network_close(first);
    graph_free(other);
    net_rig_close(&second);
    net_rig_close(&alone);
}

/* ---- the loss elsewhere ---- */

static void assert_close(const float *got, const float *want, int64_t n, double tolerance)
{
    double size = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        size += (double)want[i] * (double)want[i];
        error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    }
    if (!(size > 0 && sqrt(error) <= tolerance * sqrt(size)))
        fail_msg("off by %.3g of %.3g", sqrt(error), sqrt(size));
}

enum { PARTS = 2, PART = BATCH / PARTS };

/* Rows [PART * i, PART * (i + 1)) of batch 0. */
static void input_part(const struct net_rig *r, int i, const float *images, const int32_t *label)
{
    int64_t image = 3 * (int64_t)r->graph->image_size * r->graph->image_size;
    struct program *p = network_program(r->net, 0);
    assert_ok(program_input(p, images + i * PART * image, label + i * PART));
    run_until(p, PHASE_FORWARD);
}

/* Moves each part's rows to the head, or its gradient back. */
static void exchange_rows(const struct net_rig *part, struct loss_head *h, bool gather)
{
    for (int i = 0; i < PARTS; i++) {
        struct program_loss_ends e = program_loss_ends(network_program(part[i].net, 0));
        char *logits = (char *)h->logits_at + (size_t)i * e.logits.bytes;
        char *grad = (char *)h->grad_at + (size_t)i * e.grad.bytes;
        if (gather)
            device_copy(&part[i], logits, e.logits_at, e.logits.bytes);
        else
            device_copy(&part[i], e.grad_at, grad, e.grad.bytes);
    }
}

/* A batch over two replicas whose loss is computed in one place has the metrics and the gradients
 * of the whole batch. (No batch norm, whose statistics would differ.) */
static void compare_split_batch(const char *precision, double tolerance)
{
    static float images[BATCH * 3 * SIZE * SIZE];
    static const struct step_state *state = &plain_state;
    struct program_config config = training(precision), part_config = config;
    struct net_rig whole, part[PARTS];
    struct loss_metrics want, got;
    struct loss_head *head;
    int32_t label[BATCH];
    part_config.batch = PART;
    open_rig(&whole, "cpu", NULL, &config);
    net_rig_fill(&whole);
    net_rig_input(&whole, network_program(whole.net, 0), 0);
    run_until(network_program(whole.net, 0), PHASE_BACKWARD);
    assert_ok(program_metrics(network_program(whole.net, 0), &want));

    memcpy(images, whole.net->images, sizeof images);
    memcpy(label, whole.net->labels, sizeof label);
    for (int i = 0; i < PARTS; i++) {
        open_rig(&part[i], "cpu", NULL, &part_config);
        net_rig_fill(&part[i]);
        input_part(&part[i], i, images, label);
    }
    const struct loss_head_config hc = {.rows = BATCH,
                                        .like = program_loss_ends(network_program(part[0].net, 0)),
                                        .label_smoothing = config.label_smoothing};
    assert_ok(loss_head_open(network_stream(part[0].net), &hc, &head));
    exchange_rows(part, head, true);
    assert_ok(loss_head_labels(head, label));
    assert_ok(loss_head_run(head, state->loss_scale));
    assert_ok(loss_head_metrics(head, &got));
    assert_int_equal(got.count, BATCH);
    assert_int_equal(got.top5, want.top5);
    assert_true(fabs(got.loss_sum - want.loss_sum) <= tolerance * want.loss_sum);
    exchange_rows(part, head, false);

    size_t bytes;
    const float *all = network_flat(whole.net, VALUE_GRADIENT, &bytes);
    int64_t n = (int64_t)(bytes / sizeof(float));
    float *sum = calloc((size_t)n, sizeof *sum);
    assert_non_null(sum);
    for (int i = 0; i < PARTS; i++) {
        assert_ok(program_backward(network_program(part[i].net, 0), NULL, NULL));
        const float *mine = network_flat(part[i].net, VALUE_GRADIENT, &bytes);
        assert_int_equal(bytes, n * (int64_t)sizeof(float));
        assert_true(layout_hash(&part[i]) == layout_hash(&whole));
        for (int64_t k = 0; k < n; k++)
            sum[k] += mine[k];
    }
    assert_close(sum, all, n, tolerance);
    free(sum);
    loss_head_close(head);
    for (int i = 0; i < PARTS; i++)
        net_rig_close(&part[i]);
    net_rig_close(&whole);
}

static void a_split_batch_has_the_whole_ones_gradients(void **state)
{
    (void)state;
    compare_split_batch("fp32", 1e-4);
    compare_split_batch("bf16", 2e-2);
}

/* The head computes what a program computes of the same logits, to the bit. */
static void the_head_is_the_programs_loss(void **state)
{
    (void)state;
    struct program_config config[2] = {training("amp"), training("amp")};
    struct net_rig r;
    config[1].train = false;
    net_rig_open(&r, "cpu", "resnet8", CLASSES, SIZE, config, 2);
    net_rig_fill(&r);
    for (int k = 0; k < 2; k++) {
        struct program *p = network_program(r.net, k);
        struct program_loss_ends e = program_loss_ends(p);
        const struct loss_head_config hc = {
            .rows = BATCH, .like = e, .label_smoothing = config[k].label_smoothing};
        struct loss_metrics want, got;
        struct loss_head *head;
        assert_ok(loss_head_open(network_stream(r.net), &hc, &head));
        net_rig_input(&r, p, 0);
        run_until(p, PHASE_LOSS);
        assert_ok(program_metrics(p, &want));
        device_copy(&r, head->logits_at, e.logits_at, head->logits.bytes);
        assert_ok(loss_head_labels(head, (const int32_t *)(void *)r.net->labels));
        assert_ok(loss_head_run(head, plain_state.loss_scale));
        assert_ok(loss_head_metrics(head, &got));
        assert_memory_equal(&got, &want, sizeof want);
        assert_int_equal(e.grad.ndim, k == 0 ? 2 : 0);
        if (e.grad.ndim)
            assert_memory_equal(head->grad_at, e.grad_at, head->grad.bytes);
        else
            assert_null(e.grad_at);
        loss_head_close(head);
    }
    net_rig_close(&r);
}

/* ---- batch norm over all ranks ---- */

static enum status count_sum(void *context, double *values, int64_t n)
{
    int *calls = context;
    assert_true(n > 1 && values[n - 1] >= BATCH);
    ++*calls;
    return STATUS_OK;
}

/* Each batch norm asks once on its way forward and once on its way back; evaluation never asks.
 * With nobody else there, the gradients are those of a network that does not ask. */
static void batch_norm_asks_the_other_ranks(void **state)
{
    (void)state;
    enum { BATCH_NORMS = 9 };
    int calls = 0;
    const struct bn_sync sync = {count_sum, &calls};
    struct program_config config[2] = {training("fp32"), training("fp32")};
    struct net_rig alone, asking;
    size_t bytes;
    open_rig(&alone, "cpu", "resnet8", config);
    net_rig_fill(&alone);
    net_rig_input(&alone, network_program(alone.net, 0), 0);
    run_until(network_program(alone.net, 0), PHASE_BACKWARD);

    config[0].sync = config[1].sync = &sync;
    config[1].train = false;
    net_rig_open(&asking, "cpu", "resnet8", CLASSES, SIZE, config, 2);
    net_rig_fill(&asking);
    net_rig_input(&asking, network_program(asking.net, 0), 0);
    run_until(network_program(asking.net, 0), PHASE_LOSS);
    assert_int_equal(calls, BATCH_NORMS);
    assert_ok(program_backward(network_program(asking.net, 0), NULL, NULL));
    assert_int_equal(calls, 2 * BATCH_NORMS);
    const float *want = network_flat(alone.net, VALUE_GRADIENT, &bytes);
    assert_close(network_flat(asking.net, VALUE_GRADIENT, &bytes), want,
                 (int64_t)(bytes / sizeof(float)), 1e-4);
    run_until(network_program(asking.net, 1), PHASE_LOSS);
    assert_int_equal(calls, 2 * BATCH_NORMS);
    net_rig_close(&asking);
    net_rig_close(&alone);
}

/* ---- rounding before a reduction ---- */

/* The type of the gradient at element `e` of the flat buffer. */
static enum dtype type_at(const struct network *net, int64_t e)
{
    int k = 0;
    while (k + 1 < net->n_trained &&
           net->place[net->order[k + 1]].offset <= (size_t)e * sizeof(float))
        k++;
    return net->place[net->order[k]].types.gradient;
}

static void check_rounding(struct network *net, int64_t begin, int64_t end)
{
    size_t bytes;
    float *flat = network_flat(net, VALUE_GRADIENT, &bytes);
    struct rng rng = rng_at(1, RNG_TEST, (uint64_t)begin, (uint64_t)end);
    struct rounding *r;
    int64_t n = (int64_t)(bytes / sizeof(float));
    float *drawn = malloc(bytes);
    assert_non_null(drawn);
    for (int64_t e = 0; e < n; e++)
        flat[e] = drawn[e] = (float)rng_normal(&rng);
    assert_ok(network_plan_rounding(net, begin, end, &r));
    for (int twice = 0; twice < 2; twice++)
        assert_ok(rounding_execute(r));
    for (int64_t e = 0; e < n; e++) {
        bool inside = e >= begin && e < end;
        assert_true(flat[e] == (inside ? dtype_round(type_at(net, e), drawn[e]) : drawn[e]));
    }
    rounding_free(r);
    free(drawn);
}

static void ranges_are_rounded_to_their_types(void **state)
{
    (void)state;
    static const char *const device[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        struct program_config config = training("amp"); /* batch norm stays fp32 */
        struct rounding *none;
        struct net_rig r;
        size_t bytes;
        open_rig(&r, device[d], "resnet8", &config);
        network_flat(r.net, VALUE_GRADIENT, &bytes);
        int64_t n = (int64_t)(bytes / sizeof(float));
        check_rounding(r.net, 0, n);
        check_rounding(r.net, 0, 1);
        check_rounding(r.net, 7, 1000);
        check_rounding(r.net, n / 3, n - 5);
        check_rounding(r.net, 5, 5);
        assert_int_equal(network_plan_rounding(r.net, 0, n + 1, &none), STATUS_INVALID);
        assert_int_equal(network_plan_rounding(r.net, 3, 2, &none), STATUS_INVALID);
        net_rig_close(&r);
    }
}

/* 1 + 2^-13 is no fp16 number; its update is 1 where gradients are rounded. A value that only fp32
 * holds is finite where they are not. */
static void averages_are_not_rounded_again(void **state)
{
    (void)state;
    static const char *const precision[] = {"O1", "O3"};
    for (int k = 0; k < 2; k++) {
        for (int reduced = 0; reduced < 2; reduced++) {
            struct program_config config = training(precision[k]);
            config.reduced = reduced;
            config.check_finite = true;
            struct net_rig r;
            size_t bytes;
            bool overflow, rounds = !reduced || k == 1; /* O3's master weights are fp16 */
            open_rig(&r, "cpu", "resnet8", &config);
            struct program *p = network_program(r.net, 0);
            float *g = network_flat(r.net, VALUE_GRADIENT, &bytes);
            const float *v = network_flat(r.net, VALUE_MOMENTUM, &bytes);
            assert_ok(program_state(p, &plain_state));
            g[0] = 1e6f;
            assert_ok(program_run(p, PHASE_CHECK));
            assert_ok(program_found_inf(p, &overflow));
            assert_int_equal(overflow, rounds);
            g[0] = 1 + 0x1p-13f;
            assert_ok(program_run(p, PHASE_CHECK));
            assert_ok(program_run(p, PHASE_UPDATE));
            assert_ok(program_wait(p));
            assert_true(v[0] == (rounds ? 1 : 1 + 0x1p-13f));
            net_rig_close(&r);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_announced_when_complete),
        cmocka_unit_test(a_failure_ends_the_backward_phase),
        cmocka_unit_test(replicas_compute_the_same),
        cmocka_unit_test(layouts_are_told_apart),
        cmocka_unit_test(numbers_of_opaque_layouts_do_not_matter),
        cmocka_unit_test(a_split_batch_has_the_whole_ones_gradients),
        cmocka_unit_test(the_head_is_the_programs_loss),
        cmocka_unit_test(batch_norm_asks_the_other_ranks),
        cmocka_unit_test(ranges_are_rounded_to_their_types),
        cmocka_unit_test(averages_are_not_rounded_again),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
