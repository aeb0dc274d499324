/* Writes a network's weights and its logits of known images, for a comparison with torchvision.
 *
 *     interop_logits checkpoint ARCH SIZE FILE IMAGES   trains two steps, saves a checkpoint
 *     interop_logits weights ARCH SIZE FILE IMAGES      trains two steps, saves only the weights
 *     interop_logits load ARCH SIZE FILE IMAGES         loads weights from FILE
 *
 * Each then writes the images to IMAGES (fp32, NCHW), and prints a JSON list with a list of logits
 * for each image. */
#include "model/oracle_fill.h"
#include "net_rig.h"
#include "tests/runners/checkpoint_save.h"

#include <stdio.h>

enum { CLASSES = 10, BATCH = 2, STEPS = 2 };

static void run(struct net_rig *r, int program, int step, enum phase last)
{
    const struct step_state state = {
        .step = (uint64_t)step, .lr = 0.01f, .loss_scale = 1, .grad_scale = 1};
    net_rig_input(r, network_program(r->net, program), step);
    net_rig_run(network_program(r->net, program), &state, last);
}

static void train_and_save(struct net_rig *r, bool checkpoint, const char *file)
{
    const struct train_identity identity = {.arch = r->graph->arch,
                                            .classes = CLASSES,
                                            .image_size = r->graph->image_size,
                                            .batch = BATCH,
                                            .precision = "fp32"};
    const struct train_state state = {.step = STEPS};
    net_rig_fill(r);
    for (int step = 0; step < STEPS; step++)
        run(r, 1, step, PHASE_UPDATE);
    assert_ok(checkpoint ? checkpoint_save(file, r->net, r->graph, &identity, &state)
                         : weights_save(file, r->net, r->graph, STEPS));
}

static void evaluate(struct net_rig *r, const char *images_file)
{
    float logits[BATCH * CLASSES];
    size_t n = (size_t)BATCH * 3 * (size_t)r->graph->image_size * (size_t)r->graph->image_size;
    float *images = malloc(n * sizeof *images);
    assert_non_null(images);
    oracle_fill_images(STEPS, BATCH, r->graph->image_size, images);
    FILE *out = fopen(images_file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(images, sizeof *images, n, out), n);
    assert_int_equal(fclose(out), 0);
    free(images);
    run(r, 0, STEPS, PHASE_FORWARD);
    assert_ok(program_logits(network_program(r->net, 0), logits));
    for (int i = 0; i < BATCH * CLASSES; i++)
        printf("%s%.9g%s",
               i % CLASSES ? ", "
               : i         ? ", ["
                           : "[[",
               (double)logits[i], i % CLASSES == CLASSES - 1 ? "]" : "");
    puts("]");
}

int main(int argc, char **argv)
{
    static const struct program_config config[] = {
        {.batch = BATCH, .float_input = true},
        {.batch = BATCH, .train = true, .float_input = true, .momentum = 0.9f}};
    struct net_rig r;
    if (argc != 6) {
        fputs("usage: interop_logits checkpoint|weights|load ARCH SIZE FILE IMAGES\n", stderr);
        return 2;
    }
    bool load = strcmp(argv[1], "load") == 0;
    net_rig_open(&r, "cpu", argv[2], CLASSES, atoi(argv[3]), config, load ? 1 : 2);
    if (load)
        assert_ok(weights_load(argv[4], r.net, r.graph, NULL));
    else
        train_and_save(&r, strcmp(argv[1], "checkpoint") == 0, argv[4]);
    evaluate(&r, argv[5]);
    net_rig_close(&r);
    return 0;
}
