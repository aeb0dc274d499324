/* Writes a network's weights and its logits of known images, for a comparison with torchvision.
 *
 *     interop_logits checkpoint ARCH SIZE FILE IMAGES   trains two steps, saves a checkpoint
 *     interop_logits weights ARCH SIZE FILE IMAGES      trains two steps, saves only the weights
 *     interop_logits load ARCH SIZE FILE IMAGES         loads weights from FILE
 *
 * Each then writes the images to IMAGES (fp32, NCHW), and prints a JSON list with a list of logits
 * for each image. */
#include "model/network.h"
#include "model/oracle_fill.h"
#include "tests/runners/checkpoint_save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10, BATCH = 2, STEPS = 2 };

struct job {
    const char *mode, *file, *images_file;
    int size;
    struct device *dev;
    struct graph *graph;
    struct network *net;
    struct program *eval, *train; /* train: NULL if nothing is trained */
    float *images, *plain;
};

static enum status fill(struct job *j)
{
    for (int i = 0; i < j->graph->n_params; i++) {
        oracle_fill_param(&j->graph->param[i], j->plain);
        TRY(network_set(j->net, VALUE_WEIGHT, i, j->plain));
    }
    return STATUS_OK;
}

static enum status run(struct job *j, struct program *p, int step, enum phase last)
{
    const struct step_state state = {
        .step = (uint64_t)step, .lr = 0.01f, .loss_scale = 1, .grad_scale = 1};
    int32_t labels[BATCH];
    oracle_fill_images(step, BATCH, j->size, j->images);
    oracle_fill_labels(step, BATCH, CLASSES, labels);
    TRY(program_state(p, &state));
    TRY(program_input(p, j->images, labels));
    for (int phase = PHASE_INPUT; phase <= (int)last; phase++)
        TRY(program_run(p, (enum phase)phase));
    return program_wait(p);
}

static enum status train_and_save(struct job *j)
{
    const struct train_identity identity = {.arch = j->graph->arch,
                                            .classes = CLASSES,
                                            .image_size = j->size,
                                            .batch = BATCH,
                                            .precision = "fp32"};
    const struct train_state state = {.step = STEPS};
    TRY(fill(j));
    for (int step = 0; step < STEPS; step++)
        TRY(run(j, j->train, step, PHASE_UPDATE));
    if (strcmp(j->mode, "checkpoint") == 0)
        return checkpoint_save(j->file, j->net, j->graph, &identity, &state);
    return weights_save(j->file, j->net, j->graph, STEPS);
}

static enum status evaluate(struct job *j)
{
    float logits[BATCH * CLASSES];
    TRY(run(j, j->eval, STEPS, PHASE_FORWARD));
    TRY(program_logits(j->eval, logits));
    FILE *out = fopen(j->images_file, "wb");
    size_t n = (size_t)BATCH * 3 * (size_t)j->size * (size_t)j->size;
    bool written = out && fwrite(j->images, sizeof *j->images, n, out) == n;
    written = out && fclose(out) == 0 && written;
    if (!written)
        return status_fail(STATUS_IO, "cannot write '%s'", j->images_file);
    for (int n_row = 0; n_row < BATCH; n_row++)
        for (int k = 0; k < CLASSES; k++)
            printf("%s%.9g%s",
                   k       ? ", "
                   : n_row ? ", ["
                           : "[[",
                   (double)logits[n_row * CLASSES + k], k == CLASSES - 1 ? "]" : "");
    puts("]");
    return STATUS_OK;
}

static enum status do_job(struct job *j, const char *arch)
{
    static const struct program_config config[] = {
        {.batch = BATCH, .float_input = true},
        {.batch = BATCH, .train = true, .float_input = true, .momentum = 0.9f}};
    bool load = strcmp(j->mode, "load") == 0;
    size_t largest = 0;
    TRY(device_open("cpu", 2, &j->dev));
    TRY(graph_build(arch, CLASSES, j->size, &j->graph));
    TRY(network_open(j->dev, j->graph, config, load ? 1 : 2, &j->net));
    j->eval = network_program(j->net, 0);
    j->train = load ? NULL : network_program(j->net, 1);
    for (int i = 0; i < j->graph->n_params; i++) {
        size_t n = (size_t)param_count(&j->graph->param[i]);
        largest = n > largest ? n : largest;
    }
    j->plain = malloc(largest * sizeof *j->plain);
    j->images = malloc((size_t)BATCH * 3 * (size_t)j->size * (size_t)j->size * sizeof *j->images);
    if (!j->plain || !j->images)
        return status_fail(STATUS_OOM, "no memory for %s", arch);
    TRY(strcmp(j->mode, "load") == 0 ? weights_load(j->file, j->net, j->graph) : train_and_save(j));
    return evaluate(j);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("usage: interop_logits checkpoint|weights|load ARCH SIZE FILE IMAGES\n", stderr);
        return 2;
    }
    struct job j = {
        .mode = argv[1], .size = atoi(argv[3]), .file = argv[4], .images_file = argv[5]};
    enum status st = do_job(&j, argv[2]);
    network_close(j.net);
    graph_free(j.graph);
    device_close(j.dev);
    free(j.images);
    free(j.plain);
    if (st != STATUS_OK)
        fprintf(stderr, "%s\n", status_message());
    return status_exit_code(st);
}
