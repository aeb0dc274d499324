/* ampscale bench overlap: communication beside the backward pass. */
#include "bench/overlap.h"

#include "cli/bench_commands.h"
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

enum { KEY_BUCKET_MB = 256, KEY_GRAD_COMPRESS };

struct overlap_args {
    struct bench_net net;
    struct overlap_config overlap; /* `net` in it comes last */
};

static const struct argp_option options[] = {
    {"bucket-mb", KEY_BUCKET_MB, "MIB,...", 0,
     "Bucket sizes; 0 is one bucket of everything (default 0.25,1,4,25,100,0)", 0},
    {"grad-compress", KEY_GRAD_COMPRESS, "none|fp16|bf16", 0,
     "Type in which gradients are sent (default none)", 0},
    {0},
};

/* Numbers with commas between them. */
static enum status parse_sizes(const char *list, struct overlap_config *c)
{
    c->n_sizes = 0;
    for (const char *word = list;; word++) {
        char number[32];
        size_t len = strcspn(word, ",");
        if (c->n_sizes == OVERLAP_SIZES_MAX)
            return status_fail(STATUS_USAGE, "--bucket-mb has more than %d sizes",
                               OVERLAP_SIZES_MAX);
        if (len >= sizeof number)
            return status_fail(STATUS_USAGE, "--bucket-mb '%s': a number is too long", list);
        snprintf(number, sizeof number, "%.*s", (int)len, word);
        double *size = &c->bucket_mb[c->n_sizes++];
        TRY(cli_double("--bucket-mb", number, 0, 65536, size));
        if (*size > 0 && *size < 0.001)
            return status_fail(STATUS_USAGE, "--bucket-mb '%s': give 0, or 0.001 and more", number);
        word += len;
        if (*word == '\0')
            return STATUS_OK;
    }
}

static enum status parse_compress(const char *word, enum dtype *out)
{
    static const char *const words[] = {"none", "fp16", "bf16"};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = types[i];
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_USAGE, "--grad-compress '%s': give none, fp16 or bf16", word);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct overlap_args *a = state->input;
    enum status st = STATUS_OK;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->net;
        break;
    case KEY_BUCKET_MB:
        st = parse_sizes(arg, &a->overlap);
        break;
    case KEY_GRAD_COMPRESS:
        st = parse_compress(arg, &a->overlap.compress);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return st == STATUS_OK ? 0 : EINVAL;
}

int cmd_bench_overlap(int argc, char **argv)
{
    static const struct argp_child children[] = {{&bench_net_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Tells how much of the communication between ranks hides behind the backward pass, "
               "bucket size by bucket size; to be run as the ranks of a job: 'ampscale launch "
               "--nproc 2 -- bench overlap'."};
    struct overlap_args a = {.net = bench_net_default(),
                             .overlap = {.n_sizes = 6, .bucket_mb = {0.25, 1, 4, 25, 100, 0}}};
    int exit_code;
    if (!cli_parse(&argp, argc, argv, &a, &exit_code))
        return exit_code;
    a.overlap.net = bench_net_config_of(&a.net);
    enum status st = bench_overlap(&a.overlap);
    return st == STATUS_OK ? 0 : cli_fail(st);
}
