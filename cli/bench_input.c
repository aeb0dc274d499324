/* ampscale bench input: reading, decoding and augmenting images, and the whole loader. */
#include "bench/input.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"
#include "input/synth_draw.h"

#include <errno.h>
#include <string.h>

enum { KEY_DATA = 256, KEY_IMAGES, KEY_SIZE, KEY_IMAGE_SIZE, KEY_THREADS, KEY_JSON };

enum { IMAGES_MAX = 1 << 20 };

struct input_args {
    struct bench_timing timing;
    struct input_config config;
};

static const struct argp_option options[] = {
    {"data", KEY_DATA, "DIR", 0, "Folder with DIR/train/<class>/ (default: images are generated)",
     0},
    {"images", KEY_IMAGES, "N", 0, "Images of the set, spread evenly over it (default 256)", 0},
    {"size", KEY_SIZE, "PX", 0, "Typical side of generated images (default 375)", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of what the network sees (default 224)", 0},
    {"batch-size", 'b', "N", 0, "Images in a batch of the loader (default 32)", 0},
    {"threads", KEY_THREADS, "N,...", 0, "Threads that work, one row each (default: all cores)", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0},
};

/* Numbers with commas between them. */
static enum status parse_threads(const char *list, struct input_config *c)
{
    c->n_threads = 0;
    for (const char *word = list;; word++) {
        char number[16];
        size_t len = strcspn(word, ",");
        if (c->n_threads == INPUT_THREADS_MAX)
            return status_fail(STATUS_USAGE, "--threads '%s': give at most %d numbers", list,
                               INPUT_THREADS_MAX);
        snprintf(number, sizeof number, "%.*s", (int)len, word);
        TRY(bench_int("--threads", number, 1, 1024, &c->threads[c->n_threads++]));
        word += len;
        if (*word == '\0')
            return STATUS_OK;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input_args *a = state->input;
    struct input_config *c = &a->config;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->timing;
        break;
    case KEY_DATA:
        c->data = arg;
        break;
    case KEY_IMAGES:
        st = bench_int("--images", arg, 1, IMAGES_MAX, &c->images);
        break;
    case KEY_SIZE:
        st = bench_int("--size", arg, SYNTH_MIN_SIZE, SYNTH_MAX_SIZE, &c->size);
        break;
    case KEY_IMAGE_SIZE:
        st = bench_int("--image-size", arg, 1, 4096, &c->image_size);
        break;
    case 'b':
        st = bench_int("-b", arg, 1, 65536, &c->batch);
        break;
    case KEY_THREADS:
        st = parse_threads(arg, c);
        break;
    case KEY_JSON:
        c->json = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static enum status run_input(const struct input_args *a)
{
    struct input_config c = a->config;
    c.csv = a->timing.csv;
    TRY(bench_timing_take(&a->timing, c.json, &c.timing));
    return bench_input(&c);
}

int cmd_bench_input(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_timing_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Times reading, decoding and resampling images, each by itself, and the whole "
               "loader, and checks every image that comes out."};
    struct input_args a = {.timing = bench_timing_default(), .config = input_config_default()};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_input(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
