/* Training throughput of a device: whole steps, in turns with those of a peer.
 *
 * Each turn is a training of a few steps on synthetic images in a process of its own, or a request
 * to the peer (throughput_peer.h); its number is the median over the steps after warm-up. A row's
 * are the median, lowest and highest of its turns. Turns go round over the rows
 * (throughput_plan.h). Where combinations of fusion and graphs are asked for, each is a row and
 * runs as it says or not at all; else a run that fails is repeated with less (train_child.h), and
 * the row says on which rung it ran.
 *
 * It ends within its budget, or at a signal, with the rows that it has: with `out`, the record is
 * replaced after each turn. */
#ifndef BENCH_THROUGHPUT_H
#define BENCH_THROUGHPUT_H

#include "bench/throughput_peer.h"
#include "bench/throughput_plan.h"
#include "model/network.h"

#include <stdio.h>

enum {
    THROUGHPUT_SCHEMA = 1,
    THROUGHPUT_KEYS_MAX = 64,
    THROUGHPUT_ROUNDS_MAX = 64,
    THROUGHPUT_COMBINATIONS_MAX = 2 * FUSE_COUNT,
};

struct throughput_key {
    char precision[16]; /* as train has them: "amp", "O2" ... */
    int batch;
};

struct throughput_combination {
    enum fuse fuse;
    bool graphs;
};

struct throughput_config {
    const char *program; /* this program's file */
    const char *devices, *net;
    int image_size, threads; /* threads 0: all cores */
    int steps;               /* of a turn, of which the first ten, or half, warm up */
    int rounds, n_keys;
    struct throughput_key key[THROUGHPUT_KEYS_MAX];
    int n_combinations; /* 0: none was named, and a run that fails may fall */
    struct throughput_combination combination[THROUGHPUT_COMBINATIONS_MAX];
    const char *peer; /* its script; NULL: none */
    bool files;
    double budget_s; /* 0: none */
    const char *out; /* folder of the record and the runs; NULL: none is kept */
    bool json;
    FILE *stream; /* the table, or the record */
};

struct throughput_row {
    struct throughput_slot slot;
    struct train_ladder ladder;         /* of ours */
    double rate[THROUGHPUT_ROUNDS_MAX]; /* (n) images/s */
    int n;
    double seconds;           /* of its last turn that gave a number */
    char why[TRAIN_WHY_SIZE]; /* its last turn gave none, and the reason; "": it did, or was not
                               * taken */
};

/* Under way. */
struct throughput {
    const struct throughput_config *config;
    struct train_work work;
    struct throughput_plan plan;
    struct throughput_row *row; /* (plan.n_slots) */
    int taken;                  /* turns */
    struct peer peer;
    bool photos_made;
};

/* Takes one turn (throughput_turn.c). A turn that gives nothing is no failure. */
MUST_CHECK enum status throughput_take(struct throughput *t, const struct throughput_turn *turn);

/* What is known of a row (throughput_print.c): "amp:256 ampscale, fuse none, graphs on". */
void throughput_row_name(const struct throughput *t, const struct throughput_row *row, char *out,
                         size_t size);

/* The record so far; a new object. */
MUST_CHECK enum status throughput_json(const struct throughput *t, json_t **record);

/* The table. */
void throughput_print(const struct throughput *t);

/* All of it. STATUS_DATA where a row has no number, when all is printed; STATUS_INTERRUPTED after a
 * signal, when all is printed. */
MUST_CHECK enum status bench_throughput(const struct throughput_config *c);
#endif
