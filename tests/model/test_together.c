/* Tests computations over all replicas together: the loss from the logits of all replicas, and
 * batch norm with statistics over all ranks. */
#include "exchange_rig.h"

#include "model/exchange.h"
#include "model/loss_head.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the loss on one device ---- */

enum { PARTS = 2, PART = BATCH / PARTS };

/* Uses rows [PART * i, PART * (i + 1)) of batch 0 as the input of part i. */
static void input_part(const struct net_rig *r, int i, const float *images, const int32_t *label)
{
    int64_t image = 3 * (int64_t)r->graph->image_size * r->graph->image_size;
    struct program *p = network_program(r->net, 0);
    assert_ok(program_input(p, images + i * PART * image, label + i * PART));
    run_until(p, PHASE_FORWARD);
}

/* If `gather` is true, copies the logits of each part to the loss head. Otherwise, copies the
 * gradients of the loss head to the parts. */
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

/* Splits a batch between two replicas, and computes the loss on one device. The metrics and
 * gradients must equal those of the whole batch on one replica. The network has no batch norm,
 * because the replicas would have different batch statistics. */
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
    assert_ok(loss_head_run(head, state));
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

/* From the same logits, the loss head computes the same bits as the loss phase of a program. */
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
        assert_ok(loss_head_run(head, &plain_state));
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

/* Each batch norm requests sums over the ranks once in the forward pass and once in the backward
 * pass. Evaluation requests none. With one rank, the gradients equal those of a network without
 * sums over ranks. */
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_batch_has_the_whole_ones_gradients),
        cmocka_unit_test(the_head_is_the_programs_loss),
        cmocka_unit_test(batch_norm_asks_the_other_ranks),
    };
    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
