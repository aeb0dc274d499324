/* Inside cli/: the flags of 'bench collective' and 'bench memory', and what they start. */
#ifndef CLI_BENCH_MICRO_H
#define CLI_BENCH_MICRO_H

#include "base/status.h"
#include "bench/collective.h"

#include <argp.h>

struct bench_micro {
    const char *kind; /* of collective; NULL: not said */
    bool csv;
    int iters, warmup;       /* -1: not said */
    bool by_factor, by_step; /* -f or -i was given */
    struct collective_config collective;
};

struct bench_micro bench_micro_default(void);

/* Parses those flags; its input is a struct bench_micro. */
extern const struct argp bench_micro_argp;

/* Runs 'bench collective'; `first` is the value of -b, or NULL. */
MUST_CHECK enum status bench_micro_collective(struct bench_micro *m, const char *first, bool json);

struct memory_config;

/* Runs 'bench memory', with devices, threads, max_mib and json as they are in `c`. */
MUST_CHECK enum status bench_micro_memory(const struct bench_micro *m, struct memory_config *c);

#endif
