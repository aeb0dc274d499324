/* The settings of training in one table, which defines the flags of `ampscale train` and their
 * help, run.json's configuration, and the settings that ranks and --expect compare.
 *
 * A new setting needs a member of struct train_config, a row in this table, and code in the run
 * that uses the setting. */
#pragma once

#include "base/setting.h"
#include "runners/config.h"

/* What run.json's configuration is made from: the requested settings, and the settings that result
 * from them. */
struct train_record {
    struct train_config config; /* must be first: the table's rows for the command line
                                 * also set a plain train_config */
    struct train_setting resolved;
    const char *batchnorm, *grad_compress; /* names of types */
    json_t *loss_scaling, *inject;         /* NULL: none */
    json_t *norm_weight_decay;             /* NULL: as weight_decay */
    json_t *data_changed;                  /* NULL: the data are those of the checkpoint */
};

/* Traits of a row. */
enum {
    TRAIN_PRIVATE = SETTING_TRAIT,     /* may differ between ranks */
    TRAIN_NEUTRAL = SETTING_TRAIT * 2, /* does not affect any bit of the results */
};

/* Groups in --help. */
enum {
    TRAIN_GROUP_DATA = 1,
    TRAIN_GROUP_OPTIMIZER,
    TRAIN_GROUP_PRECISION,
    TRAIN_GROUP_DEVICES,
    TRAIN_GROUP_RUN,
};

/* The rows have the order of run.json's keys; --help lists the rows that have a flag, by group. */
extern const struct setting train_settings[];

/* Flags whose values run.json omits, or replaces by the resulting settings. */
extern const struct setting train_unrecorded[];

struct train_config train_config_default(void);

/* Sets *out to a new object with the settings for run.json, except settings with a trait in
 * `without`. On failure *out is NULL. */
MUST_CHECK enum status train_config_json(const struct train_config *c,
                                         const struct train_setting *resolved, unsigned without,
                                         json_t **out);

/* Returns whether run.json's setting `key` leaves all bits of the results unchanged
 * (TRAIN_NEUTRAL). */
bool train_key_is_neutral(const char *key);

/* Lists of values that training's flags share with flags of other commands. */
#define TRAIN_FUSE_WORDS      "auto|none|stats|apply|all"
#define TRAIN_DECODE_WORDS    "exact|fast|gpu"
#define TRAIN_PRECISION_WORDS "fp32|tf32|amp|bf16"
#define TRAIN_COMPRESS_WORDS  "none|fp16|bf16"
#define TRAIN_SEED_MAX        9007199254740992.0 /* 2^53; JSON numbers up to it are exact */
enum {
    TRAIN_IMAGE_SIZE_MAX = 4096,
    TRAIN_BATCH_MAX = 65536,
    TRAIN_CLASSES_MAX = 1000000,
    TRAIN_THREADS_MAX = 1024,
};
