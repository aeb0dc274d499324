/* ampscale pair: retests nodes that failed, between the ranks of a job. */
#include "accept/pair.h"
#include "cli/bench_options.h"

struct pair_args {
    struct pair_job job;
    int mib;
    double within, latency_within; /* percent */
    int exit_code;
};

static enum status take_fault(const struct setting *s, const char *text, void *args)
{
    (void)s;
    return inject_parse(text, &((struct pair_args *)args)->job.faults);
}

#define SETTINGS_OF struct pair_args
static const struct setting pair_settings[] = {
    {"failing", 0, "NODE,...|FILE", NULL,
     "Nodes that failed before: names or ranks, or a file of names", AS_TEXT(job.failing)},
    {"partners", 0, "N", "2", "Number of good nodes to pair each failed node with",
     AS_INTEGER(job.run.partners, 1, 1000)},
    {"seed", 0, "N", "1", "Seed of the pairing", AS_INTEGER(job.run.seed, 0, 1e18)},
    {"mib", 0, "N", "64", "Size of the long all-reduce in MiB; the short all-reduce has 8 bytes",
     AS_INTEGER(mib, 1, 65536)},
    {"samples", 0, "N", "20", "Timed calls of each all-reduce",
     AS_INTEGER(job.run.samples, 1, BENCH_ITERS_MAX)},
    {"within", 0, "PERCENT", "10",
     "Percent by which a training step or the long all-reduce may be worse than among good nodes",
     AS_REAL(within, 0.1, 99)},
    {"latency-within", 0, "PERCENT", "100",
     "Percent by which the short all-reduce may take longer than among good nodes",
     AS_REAL(latency_within, 0.1, 1e6)},
    {"out", 0, "DIR", NULL, "Folder for pair.json", AS_TEXT(job.out)},
    {"inject", 0, "FAULT", NULL, "Inject a fault, to test the detection", TAKEN_BY(take_fault),
     .traits = SETTING_HIDDEN},
    {0},
};

static enum status pair(void *args)
{
    struct pair_args *a = args;
    if (!a->job.failing)
        return status_fail(STATUS_USAGE, "no failed nodes: give --failing");
    a->job.run.step.out = stdout;
    a->job.run.bytes = (int64_t)a->mib << 20;
    a->job.run.within = a->within / 100;
    a->job.run.latency_within = a->latency_within / 100;
    return pair_job_run(&a->job, &a->exit_code);
}

enum { STEP = offsetof(struct pair_args, job.run.step) };
const struct cli_command cmd_pair = {
    .name = "pair",
    .summary = "retest failed nodes, paired with good ones",
    .arguments = "--failing NODE,...|FILE",
    .doc = "Retests nodes that failed an acceptance, as the ranks of an MPI job with one rank per "
           "node: each node trains alone, then each failed node runs all-reduces with good nodes. "
           "The pairs that fail distinguish a bad node from a bad link.\vExit status: 0 if no "
           "failure was reproduced, 1 on an error, 2 on wrong usage, 4 if a failure was "
           "reproduced, 5 if not everything could be measured.",
    .example =
        {{"Retest a node with the help of two good ones (needs three nodes)",
          "ampscale launch --hosts node1,node2,node3 -- pair --failing node2"},
         {"The nodes that 'ampscale accept --node-list' found to fail (needs nodes)",
          "ampscale launch --hostfile nodes.txt -- pair --failing results/fleet/failed.txt --out "
          "results/pair"},
         {"Try it with three ranks of this machine, the last one under suspicion",
          "ampscale launch --nproc 3 -- pair --failing 2 --net resnet8 -b 8 --image-size 32"}},
    .part = {{bench_device_settings, STEP}, {bench_network_settings, STEP}, {pair_settings}},
    .prints = true,
    .config = &(struct pair_args){.mib = 0},
    .exit_code = offsetof(struct pair_args, exit_code),
    .work = pair};
