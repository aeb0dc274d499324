/* Options that benchmarks share. A benchmark uses only the options for which it has flags
 * (cli/bench_options.h). If it has further settings, its own struct begins with these options. */
#pragma once

#include "bench/harness.h"
#include "model/network.h"

enum { BENCH_ROUNDS_MAX = 64 };

struct bench_options {
    const char *devices; /* names as in `train` */
    int threads;         /* threads of the host; 0: all cores that this process may use */
    enum bench_format format;
    FILE *out;                    /* output stream of the table or the record */
    struct harness_config timing; /* number of calls, warm-up and time limit for one row */
    bool quiet;                   /* show no progress on stderr */
    const char *peak;             /* file of peaks (roofline.h); NULL: the benchmark measures them
                                   * first, or does not need them */
    int max_mib;                  /* size in MiB of the largest array; 0: the default */
    double budget_s;              /* time limit, seconds; 0: unlimited */
    const char *dir;              /* folder for the record and the runs; NULL: neither is saved */
    /* Settings of a network's training step: */
    const char *net;
    int batch, image_size;
    int rounds;            /* number of timed rounds after one warm-up round, at most
                            * BENCH_ROUNDS_MAX */
    const char *precision; /* name as in `train`; NULL: fp32, or several precisions, depending on
                            * the benchmark */
    bool emulate;          /* emulate the precision by rounding in fp32, even if the device has its
                            * types */
    enum fuse fuse;        /* fusion of convolution and batch norm */
    enum conv_algorithm conv_algorithm;
};

/* Returns a table with the options' format and output stream. */
static inline struct bench_table bench_table_of(const struct bench_options *o,
                                                void (*columns)(struct bench_table *, const void *),
                                                const void *context)
{
    return (struct bench_table){.format = o->format,
                                .out = o->out,
                                .columns = columns,
                                .context = context,
                                .bar = o->timing.bar};
}

/* Returns the precision, or "fp32" if none was given. */
static inline const char *bench_precision(const struct bench_options *o)
{
    return o->precision ? o->precision : "fp32";
}
