/* ampscale bench throughput: training rates of a device, in turns with a peer's. */
#include "bench/throughput.h"

#include "base/process.h"
#include "cli/bench_commands.h"
#include "cli/cli.h"
#include "model/policy.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_ROWS = 256,
    KEY_IMAGE_SIZE,
    KEY_STEPS,
    KEY_ROUNDS,
    KEY_FUSE,
    KEY_GRAPHS,
    KEY_PEER,
    KEY_FILES,
    KEY_BUDGET,
    KEY_OUT
};

static const struct argp_option options[] = {
    {"rows", KEY_ROWS, "P:N,...", 0,
     "Precisions, as train has them, and images of a step; the first has all its rounds before the "
     "others (default amp:256,bf16:256,tf32:256,fp32:256)",
     0},
    {"net", 'a', "ARCH", 0, "Network (default resnet50)", 0},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "Side of the input images (default 224)", 0},
    {"steps", KEY_STEPS, "N", 0, "Steps of a turn, of which the first ten warm up (default 40)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Turns of each row (default 3, at most 64)", 0},
    {"fuse", KEY_FUSE, "auto|none|stats|apply|all,...", 0,
     "A row for each of these levels, as train has them", 0},
    {"graphs", KEY_GRAPHS, "on|off,...", 0, "A row for each, with graphs and without", 0},
    {"peer", KEY_PEER, "FILE", 0,
     "Take turns with a program that answers as tests/peers/torch_step.py does, or 'none' "
     "(default)",
     0},
    {"files", KEY_FILES, 0, 0, "One more row: the first one's, from JPEG files", 0},
    {"budget", KEY_BUDGET, "S", 0, "End within S seconds with the rows that there are by then", 0},
    {"out", KEY_OUT, "DIR", 0, "Folder for throughput.json, replaced after each turn, and the runs",
     0},
    {0},
};

struct throughput_args {
    struct bench_common common;
    struct throughput_config config;
    bool fuse[FUSE_COUNT], graphs[2]; /* that were named; graphs by off, on */
};

/* Takes each part of a list with commas, in turn. */
static enum status each_part(const char *flag, const char *list,
                             enum status (*take)(struct throughput_args *, const char *),
                             struct throughput_args *a)
{
    char *copy = strdup(list), *rest = copy, *part;
    enum status st = copy ? STATUS_OK : status_fail(STATUS_OOM, "no memory for '%s'", flag);
    while (st == STATUS_OK && (part = strsep(&rest, ",")))
        st = take(a, part);
    free(copy);
    return st;
}

static enum status take_row(struct throughput_args *a, const char *part)
{
    struct throughput_config *c = &a->config;
    struct throughput_key *key = &c->key[c->n_keys];
    struct policy known;
    const char *colon = strchr(part, ':');
    size_t n = colon ? (size_t)(colon - part) : 0;
    if (n == 0 || n >= sizeof key->precision)
        return status_fail(STATUS_USAGE, "--rows '%s': give PRECISION:IMAGES, amp:256 say", part);
    if (c->n_keys == THROUGHPUT_KEYS_MAX)
        return status_fail(STATUS_USAGE, "--rows: give at most %d", THROUGHPUT_KEYS_MAX);
    memcpy(key->precision, part, n);
    key->precision[n] = '\0';
    if (policy_find(key->precision, -1, &known) != STATUS_OK)
        return status_fail(STATUS_USAGE,
                           "--rows '%s': give fp32, tf32, amp or bf16, or O0 to O3, and images",
                           part);
    TRY(bench_int("--rows", colon + 1, 1, 65536, &key->batch));
    c->n_keys++;
    return STATUS_OK;
}

static enum status take_fuse(struct throughput_args *a, const char *part)
{
    enum fuse f;
    TRY(bench_fuse(part, &f));
    a->fuse[f] = true;
    return STATUS_OK;
}

static enum status take_graphs(struct throughput_args *a, const char *part)
{
    bool on = strcmp(part, "on") == 0;
    if (!on && strcmp(part, "off") != 0)
        return status_fail(STATUS_USAGE, "--graphs '%s': give on, off, or both with a comma", part);
    a->graphs[on] = true;
    return STATUS_OK;
}

static enum status parse_list(int key, const char *arg, struct throughput_args *a)
{
    if (key == KEY_FUSE)
        return each_part("--fuse", arg, take_fuse, a);
    if (key == KEY_GRAPHS)
        return each_part("--graphs", arg, take_graphs, a);
    a->config.n_keys = 0;
    return each_part("--rows", arg, take_row, a);
}

static error_t parse_throughput(int key, char *arg, struct argp_state *state)
{
    struct throughput_args *a = state->input;
    struct throughput_config *c = &a->config;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->common;
        break;
    case KEY_ROWS:
    case KEY_FUSE:
    case KEY_GRAPHS:
        st = parse_list(key, arg, a);
        break;
    case 'a':
        c->net = arg;
        break;
    case KEY_IMAGE_SIZE:
        st = bench_int("--image-size", arg, 1, 4096, &c->image_size);
        break;
    case KEY_STEPS:
        st = bench_int("--steps", arg, 1, 100000, &c->steps);
        break;
    case KEY_ROUNDS:
        st = bench_int("--rounds", arg, 1, THROUGHPUT_ROUNDS_MAX, &c->rounds);
        break;
    case KEY_PEER:
        c->peer = strcmp(arg, "none") == 0 ? NULL : arg;
        break;
    case KEY_FILES:
        c->files = true;
        break;
    case KEY_BUDGET:
        st = cli_double("--budget", arg, 1, 1e6, &c->budget_s);
        break;
    case KEY_OUT:
        c->out = arg;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

/* Each level that was named with each way of graphs that was; what was not named is as train has it
 * by default. */
static void combine(struct throughput_args *a)
{
    struct throughput_config *c = &a->config;
    bool fuse = false, graphs = a->graphs[0] || a->graphs[1];
    for (enum fuse f = 0; f < FUSE_COUNT; f++)
        fuse |= a->fuse[f];
    if (!fuse && !graphs)
        return;
    a->fuse[FUSE_AUTO] |= !fuse;
    a->graphs[1] |= !graphs;
    for (enum fuse f = 0; f < FUSE_COUNT; f++)
        for (int on = 1; on >= 0; on--)
            if (a->fuse[f] && a->graphs[on])
                c->combination[c->n_combinations++] = (struct throughput_combination){f, on};
}

static enum status run_throughput(struct throughput_args *a)
{
    char program[PATH_MAX];
    struct throughput_config *c = &a->config;
    TRY(bench_host_devices(a->common.devices));
    if (c->peer && access(c->peer, R_OK) != 0)
        return status_fail(STATUS_USAGE, "--peer '%s': cannot read it: %s", c->peer,
                           strerror(errno));
    TRY(process_own_file(program, sizeof program));
    if (c->n_keys == 0)
        TRY(parse_list(KEY_ROWS, "amp:256,bf16:256,tf32:256,fp32:256", a));
    combine(a);
    c->program = program;
    c->devices = a->common.devices;
    c->threads = a->common.threads;
    c->json = a->common.json;
    return bench_throughput(c);
}

int cmd_bench_throughput(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_common_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse_throughput,
        .children = children,
        .doc = "Times training on a device, each turn in a process of its own, in turns with a "
               "peer's. Where a run on a GPU fails it is repeated without fused operations, "
               "without graphs, and without both, unless --fuse or --graphs is given.\v"
               "Exit status: 0 every row has a number, 1 failed or stopped by a signal, 2 wrong "
               "usage, 5 a row has none."};
    struct throughput_args a = {
        .common = bench_common_default(),
        .config = {
            .net = "resnet50", .image_size = 224, .steps = 40, .rounds = 3, .stream = stdout}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    enum status st = run_throughput(&a);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
