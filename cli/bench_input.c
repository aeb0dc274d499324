/* ampscale bench input: reading, decoding and augmenting images, and the whole loader. */
#include "bench/input.h"

#include "cli/bench_options.h"
#include "input/synth_draw.h"

enum { IMAGES_MAX = 1 << 20 };

static enum status take_thread(const struct setting *s, const char *part, void *config)
{
    struct input_config *c = config;
    int64_t threads;
    if (c->n_threads == INPUT_THREADS_MAX)
        return status_fail(STATUS_USAGE, "--threads: give at most %d numbers", INPUT_THREADS_MAX);
    TRY(setting_integer(s->flag, part, 1, BENCH_THREADS_MAX, &threads));
    c->threads[c->n_threads++] = (int)threads;
    return STATUS_OK;
}

#define SETTINGS_OF struct input_config
static const struct setting input_settings[] = {
    {"data", 0, "DIR", NULL, "Folder that holds train/<class>/ (default: generated images)",
     AS_TEXT(data)},
    {"images", 0, "N", "256", "Images to read, spread evenly over the data set",
     AS_INTEGER(images, 1, IMAGES_MAX)},
    {"size", 0, "PX", "375", "Typical side of generated images in pixels",
     AS_INTEGER(size, SYNTH_MIN_SIZE, SYNTH_MAX_SIZE)},
    {"image-size", 0, "PX", "224", "Side of the network's input in pixels",
     AS_INTEGER(options.image_size, 1, BENCH_IMAGE_SIZE_MAX)},
    {"batch-size", 'b', "N", "32", "Images per batch of the loader",
     AS_INTEGER(options.batch, 1, BENCH_BATCH_MAX)},
    {"decode", 0, "exact|fast", "exact", "How the CPU decodes, as in train", AS_CHOICE(fast)},
    {"threads", 0, "N,...", NULL, "Numbers of threads, one row for each (default: all cores)",
     PARTS_TAKEN_BY(take_thread, n_threads)},
    {"devices", 0, "cuda:N", NULL,
     "Also measure the loader with this GPU's JPEG engines (default: none)", AS_TEXT(device)},
    BENCH_JSON_ROW,
    BENCH_QUIET_ROW,
    {0},
};

static enum status run_input(void *config)
{
    return bench_input(config);
}

const struct cli_command cmd_bench_input = {
    .name = "input",
    .summary = "reading, decoding and augmenting images, and the whole loader",
    .doc = "Times reading, decoding and resampling images one by one, then the whole loader, and "
           "checks every loaded image.\vExit status: 0 if every image is right, 1 on an error, 2 "
           "on wrong usage, 4 if an image is wrong or missing.",
    .example = {{"How fast one and two threads feed the quickstart's images to the network",
                 "ampscale bench input --data data/synth10 --image-size 64 --threads 1,2"},
                {"The same for generated images of ImageNet's size", "ampscale bench input"}},
    .part = {{bench_timing_settings}, {input_settings}},
    .prints = true,
    .config = &(struct input_config){.options.timing = {.within = 0.02, .seconds = 2}},
    .work = run_input};
