/* Inside cli/: the benchmarks, each with a parser in a file of its own, and the flags they share.
 *
 * A benchmark's argp has those of the shared ones that it needs among its children, and a struct
 * for each of them in its own arguments. */
#ifndef CLI_BENCH_COMMANDS_H
#define CLI_BENCH_COMMANDS_H

#include "base/status.h"
#include "bench/harness.h"
#include "bench/noise_step.h"

#include <argp.h>
#include <stdbool.h>

int cmd_bench_accuracy(int argc, char **argv);
int cmd_bench_collective(int argc, char **argv);
int cmd_bench_conv(int argc, char **argv);
int cmd_bench_gemm(int argc, char **argv);
int cmd_bench_input(int argc, char **argv);
int cmd_bench_memory(int argc, char **argv);
int cmd_bench_optimizer(int argc, char **argv);
int cmd_bench_overhead(int argc, char **argv);
int cmd_bench_overlap(int argc, char **argv);
int cmd_bench_peak(int argc, char **argv);
int cmd_bench_profile(int argc, char **argv);
int cmd_bench_step(int argc, char **argv);
int cmd_bench_throughput(int argc, char **argv);

/* For commands whose children open the device: STATUS_USAGE for text that names no device of the
 * host. GPUs are the children's to judge, so that a missing one is a row without a number. */
MUST_CHECK enum status bench_host_devices(const char *text);

/* --devices, --threads and --json: which all have. */
struct bench_common {
    const char *devices;
    int threads;
    bool json;
};
extern const struct argp bench_common_argp;
struct bench_common bench_common_default(void);

/* -n, -w and --csv: of those that repeat a row until its median is known. */
struct bench_timing {
    int iters, warmup; /* -1: not said */
    bool csv;
};
extern const struct argp bench_timing_argp;
struct bench_timing bench_timing_default(void);

/* Puts what was said in place of what `timing` holds; STATUS_USAGE for --csv beside --json. */
MUST_CHECK enum status bench_timing_take(const struct bench_timing *said, bool json,
                                         struct harness_config *timing);

/* --net, -b, --image-size, --rounds, --precision and --emulate, and what is common: of those that
 * run training steps. */
struct bench_net {
    struct bench_common common;
    struct bench_net_config config; /* bench_net_config_of() fills in what is common */
};
extern const struct argp bench_net_argp;
struct bench_net bench_net_default(void);
struct bench_net_config bench_net_config_of(const struct bench_net *n);

/* cli_int into an int. */
MUST_CHECK enum status bench_int(const char *flag, const char *arg, int min, int max, int *out);

/* A level of fusion, as train names it. */
MUST_CHECK enum status bench_fuse(const char *arg, enum fuse *out);

enum { BENCH_ROUNDS_MAX = 64, BENCH_ITERS_MAX = 100000 };

#endif
