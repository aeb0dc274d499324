/* ampscale bench overlap: communication overlapped with the backward pass. */
#include "bench/overlap.h"

#include "cli/bench_options.h"

#include <string.h>

static enum status take_size(const struct setting *s, const char *part, void *config)
{
    struct overlap_config *c = config;
    if (c->n_sizes == OVERLAP_SIZES_MAX)
        return status_fail(STATUS_USAGE, "--bucket-mb has more than %d sizes", OVERLAP_SIZES_MAX);
    double *size = &c->bucket_mb[c->n_sizes++];
    TRY(setting_real(s->flag, part, 0, 65536, size));
    if (*size > 0 && *size < 0.001)
        return status_fail(STATUS_USAGE, "--bucket-mb '%s': give 0, or at least 0.001", part);
    return STATUS_OK;
}

static enum status take_comm(const struct setting *s, const char *text, void *config)
{
    static const char *const words[] = {
        [VIA_AUTO] = "auto", [VIA_MPI] = "mpi", [VIA_GLOO] = "gloo"};
    struct overlap_config *c = config;
    for (int via = VIA_AUTO; via <= VIA_GLOO; via++)
        if (words[via] && strcmp(text, words[via]) == 0) {
            c->via = (enum comm_via)via;
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE, "--%s '%s': give auto, mpi or gloo", s->flag, text);
}

#define SETTINGS_OF struct overlap_config
/* The values of --grad-compress are in the order of enum dtype. */
_Static_assert(DTYPE_F32 == 0 && DTYPE_F16 == 1 && DTYPE_BF16 == 2, "--grad-compress");
static const struct setting overlap_settings[] = {
    {"bucket-mb", 0, "MIB,...", "0.25,1,4,25,100,0",
     "Bucket sizes in MiB; 0: one bucket for all gradients", PARTS_TAKEN_BY(take_size, n_sizes)},
    {"comm", 0, "auto|mpi|gloo", "auto", "Transport between the ranks: MPI or Gloo",
     TAKEN_BY(take_comm)},
    {"grad-compress", 0, "none|fp16|bf16", "none", "Type in which gradients are sent",
     AS_CHOICE(compress)},
    {0},
};

static enum status run_overlap(void *config)
{
    return bench_overlap(config);
}

const struct cli_command cmd_bench_overlap = {
    .name = "overlap",
    .summary = "share of communication that overlaps with the backward pass",
    .doc = "Measures, for each bucket size, how much of the communication between ranks overlaps "
           "with the backward pass. Run it as the ranks of a job: 'ampscale launch --nproc 2 -- "
           "bench overlap'.",
    .example = {{"Two ranks on this machine",
                 "ampscale launch --nproc 2 -- bench overlap --net resnet18 -b 8 --image-size 64"},
                {"Two bucket sizes, as JSON, which 'ampscale plot' draws",
                 "ampscale launch --nproc 2 -- bench overlap --net resnet18 -b 8 --image-size 64 "
                 "--bucket-mb 4,25 --json -o overlap.json"}},
    .part = {{bench_device_settings}, {bench_network_settings}, {overlap_settings}},
    .prints = true,
    .config = &(struct overlap_config){.n_sizes = 0},
    .work = run_overlap};
