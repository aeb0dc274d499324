/* A study as a file says it: which cells its matrix has, and how each is run.
 *
 *   {
 *     "schema": 1,
 *     "name": "quick",                     letters, digits, '-', '_' and '.'
 *     "about": "what it is for",
 *     "modes": {"nd": [1], "dp": [2], "ddp": [2, 4]},     devices in all, of each mode
 *     "devices_per_rank": 2,               ddp2 only: devices of each of its processes
 *     "device": "cpu",                     cpu, cuda or ref
 *     "precisions": ["fp32", "O1"],        as train's --precision and --opt-level
 *     "archs": ["resnet8"],
 *     "batch": {"weak": [32],              images of a step: of each device,
 *               "strong": [64]},           of all devices together
 *     "data": [{"name": "synthetic", "classes": 10, "train": 12800, "val": 64},
 *              {"name": "jpeg", "generate": {"classes": 10, "train": 128, "val": 8, "size": 64}},
 *              {"name": "imagenet", "folder": "data/imagenet"}],
 *     "image_size": 32,
 *     "threads": 1,                        that compute, of each device; without it as train has it
 *     "workers": 1,                        that decode, of each process
 *     "repeats": 3,
 *     "warmup_steps": 10,                  not measured
 *     "measured_steps": 100,               or "epochs": 90, of which the warm-up is left out
 *     "seed": 0,                           of the order of runs; repeat k trains with seed + k - 1
 *     "limit_s": 60,                       seconds that a run may take; without it no limit
 *     "train": ["--lr", "0.05"],           further flags of train
 *     "launcher": ["srun", "--mpi=pmix", "-n", "{ranks}"]
 *                                          starts several ranks; without it `ampscale launch`
 *   }
 *
 * Validation comes at the end of an epoch: steps that end within one leave a cell without accuracy.
 * A data set without "generate" and "folder" is of tensors that nothing reads or decodes. */
#ifndef STUDY_SPEC_H
#define STUDY_SPEC_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Grows when a reader of the previous version would misunderstand. */
enum { STUDY_SCHEMA = 1 };

enum { STUDY_MAX_LIST = 32, STUDY_NAME_SIZE = 48, STUDY_MAX_DEVICES = 65536 };

enum study_mode { STUDY_ND, STUDY_DP, STUDY_DDP, STUDY_DDP2, STUDY_MODES };

struct study_names {
    int n;
    char v[STUDY_MAX_LIST][STUDY_NAME_SIZE];
};

struct study_counts {
    int n;
    int64_t v[STUDY_MAX_LIST];
};

struct study_data {
    char name[STUDY_NAME_SIZE];
    char folder[1024];           /* ""; or where the images are */
    bool generated;              /* by `ampscale data synth`, with the numbers below */
    int64_t classes, train, val; /* generated: images of a class; tensors: in all */
    int64_t size, seed;          /* of generated images */
};

struct study_spec {
    json_t *json; /* all of it, as read; the lists below borrow from it */
    char name[STUDY_NAME_SIZE];
    const char *about;
    struct study_counts devices[STUDY_MODES]; /* n is 0: not this mode */
    int64_t devices_per_rank;
    char device[STUDY_NAME_SIZE];
    struct study_names precisions, archs;
    struct study_counts weak, strong;
    int n_data;
    struct study_data data[STUDY_MAX_LIST];
    int64_t image_size, threads, workers; /* threads 0: as train has it */
    int64_t repeats, warmup_steps;
    int64_t measured_steps, epochs; /* one of them is 0 */
    int64_t seed;
    int64_t limit_s;        /* 0: none */
    const json_t *train;    /* array of strings, or NULL */
    const json_t *launcher; /* array of strings, or NULL */
};

/* Reads the file or preset that `name` stands for; a path has a '/' or a '.'. STATUS_USAGE says
 * what is wrong in it and where; an unknown key is named with the nearest known one. The caller
 * frees with study_spec_free. */
MUST_CHECK enum status study_spec_load(const char *name, struct study_spec *spec);

/* The same of text at hand, which `from` names in messages. */
MUST_CHECK enum status study_spec_parse(const char *text, size_t size, const char *from,
                                        struct study_spec *spec);
void study_spec_free(struct study_spec *spec);

/* The file of a preset, for people to print and change; NULL where there is no such preset. */
const char *study_preset(const char *name);

/* The names of presets, ended by NULL. */
extern const char *const study_presets[];

const char *study_mode_str(enum study_mode mode); /* "nd", ... */
#endif
