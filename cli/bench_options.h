/* Inside cli/: the benchmarks, each in its own file, and the tables of flags that they share.
 *
 * The configuration of a benchmark begins with a struct bench_options (bench/options.h), which
 * these tables fill in. So the offset of these tables in struct cli_command is 0. The command
 * `bench` sets .out. */
#pragma once

#include "bench/options.h"
#include "cli/cli.h"

extern const struct cli_command cmd_bench_accuracy, cmd_bench_collective, cmd_bench_conv,
    cmd_bench_gemm, cmd_bench_input, cmd_bench_memory, cmd_bench_optimizer, cmd_bench_overlap,
    cmd_bench_peak, cmd_bench_step, cmd_bench_throughput;

extern const struct setting bench_device_settings[]; /* --devices, --threads, --json, --quiet */
extern const struct setting bench_timing_settings[]; /* -n, -w, --csv, --markdown: for rows that are
                                                      * timed until the interval of their median is
                                                      * narrow */
extern const struct setting bench_network_settings[]; /* --net, -b, --image-size, --rounds,
                                                       * --precision, --emulate: training steps */
extern const struct setting bench_peak_settings[];    /* --peak */
extern const struct setting bench_fuse_settings[];    /* --fuse */
extern const struct setting bench_child_settings[];   /* --budget, --out: for child processes */

/* Functions for rows of a benchmark's own table. bench_take_format sets the format that has the
 * flag's name (json, csv or markdown). bench_take_precision sets the precision, which is named as
 * in `train`. bench_take_quiet suppresses the progress bar. */
MUST_CHECK enum status bench_take_format(const struct setting *s, const char *text, void *config);
MUST_CHECK enum status bench_take_precision(const struct setting *s, const char *text,
                                            void *config);

MUST_CHECK enum status bench_take_quiet(const struct setting *s, const char *text, void *config);

/* Rows of flags that have the same meaning in every benchmark. */
#define BENCH_JSON_ROW                                                                             \
    {                                                                                              \
        "json", 0, NULL, NULL, "Print one JSON object", TAKEN_BY(bench_take_format)                \
    }
#define BENCH_CSV_ROW                                                                              \
    {                                                                                              \
        "csv", 0, NULL, NULL, "Print CSV", TAKEN_BY(bench_take_format)                             \
    }
#define BENCH_QUIET_ROW                                                                            \
    {                                                                                              \
        "quiet", 'q', NULL, NULL, "Print no progress on stderr", TAKEN_BY(bench_take_quiet)        \
    }

/* The GPUs that kernels/gpus describes. */
#define PREDICT_GPUS "a10|a100|b200|h100|h200|l40|rtx5090|t4|v100"

enum { BENCH_ITERS_MAX = 100000, BENCH_BATCH_MAX = 65536 };
enum { BENCH_IMAGE_SIZE_MAX = 4096, BENCH_THREADS_MAX = 1024 };
