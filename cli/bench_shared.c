/* Flags that several benchmarks have. */
#include "cli/bench_commands.h"
#include "cli/cli.h"
#include "kernels/device_list.h"

#include <errno.h>
#include <string.h>

enum {
    KEY_DEVICES = 1024, /* above the keys of every benchmark */
    KEY_THREADS,
    KEY_JSON,
    KEY_CSV,
    KEY_NET,
    KEY_IMAGE_SIZE,
    KEY_ROUNDS,
    KEY_PRECISION,
    KEY_EMULATE,
};

enum status bench_int(const char *flag, const char *arg, int min, int max, int *out)
{
    int64_t v;
    TRY(cli_int(flag, arg, min, max, &v));
    *out = (int)v;
    return STATUS_OK;
}

enum status bench_fuse(const char *arg, enum fuse *out)
{
    for (enum fuse f = 0; f < FUSE_COUNT; f++) {
        if (strcmp(arg, fuse_str(f)) != 0)
            continue;
        *out = f;
        return STATUS_OK;
    }
    return status_fail(STATUS_USAGE, "--fuse '%s': give auto, none, stats, apply or all", arg);
}

/* --- common --- */

enum status bench_host_devices(const char *text)
{
    struct device_list devices;
    return strncmp(text, "cuda", 4) == 0 ? STATUS_OK : device_list_parse(text, &devices);
}

static const struct argp_option common_options[] = {
    {"devices", KEY_DEVICES, "cpu|ref|cuda:N", 0, "Device that computes (default: cpu)", 0},
    {"threads", KEY_THREADS, "N", 0, "Host threads that compute (default: all cores)", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0},
};

struct bench_common bench_common_default(void)
{
    return (struct bench_common){.devices = "cpu"};
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    struct bench_common *c = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case KEY_DEVICES:
        c->devices = arg;
        break;
    case KEY_THREADS:
        st = bench_int("--threads", arg, 1, 1024, &c->threads);
        break;
    case KEY_JSON:
        c->json = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

const struct argp bench_common_argp = {.options = common_options, .parser = parse_common};

/* --- timing --- */

static const struct argp_option timing_options[] = {
    {"iters", 'n', "N", 0, "Measurements of a row, at most (default 50)", 0},
    {"warmup", 'w', "N", 0, "Warm-up runs, which do not count (default 2)", 0},
    {"csv", KEY_CSV, 0, 0, "Print CSV", 0},
    {0},
};

struct bench_timing bench_timing_default(void)
{
    return (struct bench_timing){.iters = -1, .warmup = -1};
}

static error_t parse_timing(int key, char *arg, struct argp_state *state)
{
    struct bench_timing *t = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case 'n':
        st = bench_int("-n", arg, 1, BENCH_ITERS_MAX, &t->iters);
        break;
    case 'w':
        st = bench_int("-w", arg, 0, BENCH_ITERS_MAX, &t->warmup);
        break;
    case KEY_CSV:
        t->csv = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

const struct argp bench_timing_argp = {.options = timing_options, .parser = parse_timing};

enum status bench_timing_take(const struct bench_timing *said, bool json,
                              struct harness_config *timing)
{
    if (json && said->csv)
        return status_fail(STATUS_USAGE, "--json and --csv: give one of them");
    if (said->iters >= 0)
        timing->most = said->iters;
    if (said->warmup >= 0)
        timing->warmup = said->warmup;
    return STATUS_OK;
}

/* --- networks --- */

static const struct argp_option net_options[] = {
    {"net", KEY_NET, "ARCH", 0, "Network to time (default resnet50)", 0},
    {"batch-size", 'b', "N", 0, "Images per step (default 16)", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of the input images (default 224)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Timed rounds (default 5, at most 64)", 0},
    {"precision", KEY_PRECISION, "fp32|tf32|amp|bf16", 0,
     "Types of the training step (default fp32), as train has them", 0},
    {"emulate", KEY_EMULATE, 0, 0, "Round in fp32 although the processor has the type", 0},
    {0},
};

struct bench_net bench_net_default(void)
{
    return (struct bench_net){
        .common = bench_common_default(),
        .config = {.net = "resnet50", .batch = 16, .image_size = 224, .rounds = 5, .out = stdout}};
}

struct bench_net_config bench_net_config_of(const struct bench_net *n)
{
    struct bench_net_config c = n->config;
    c.devices = n->common.devices;
    c.threads = n->common.threads;
    c.json = n->common.json;
    return c;
}

/* Before anything is measured. */
static enum status parse_precision(const char *arg, struct bench_net_config *c)
{
    struct policy p;
    if (policy_find(arg, -1, &p) != STATUS_OK)
        return status_fail(STATUS_USAGE,
                           "--precision '%s': give fp32, tf32, amp or bf16, or O0 to O3", arg);
    c->precision = arg;
    return STATUS_OK;
}

static error_t parse_net(int key, char *arg, struct argp_state *state)
{
    struct bench_net *n = state->input;
    struct bench_net_config *c = &n->config;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &n->common;
        break;
    case KEY_NET:
        c->net = arg;
        break;
    case 'b':
        st = bench_int("-b", arg, 1, 65536, &c->batch);
        break;
    case KEY_IMAGE_SIZE:
        st = bench_int("--image-size", arg, 1, 4096, &c->image_size);
        break;
    case KEY_ROUNDS:
        st = bench_int("--rounds", arg, 1, BENCH_ROUNDS_MAX, &c->rounds);
        break;
    case KEY_PRECISION:
        st = parse_precision(arg, c);
        break;
    case KEY_EMULATE:
        c->emulate = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

static const struct argp_child net_children[] = {{&bench_common_argp, 0, NULL, 0}, {0}};

const struct argp bench_net_argp = {
    .options = net_options, .parser = parse_net, .children = net_children};
