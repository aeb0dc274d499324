/* Saves and loads a run's state. */
#include "runners/checkpoint.h"

#include "base/array.h"
#include "model/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION "1"

enum { PAIRS_MAX = 24, PAIR_TEXT = 64 };

/* An upper bound for numbers of epochs and images. No run reaches it, and sums of such numbers
 * cannot overflow. */
#define COUNT_MAX ((int64_t)1 << 40)

/* The contents of one file. Each list has space for 3 entries per parameter of the graph. */
struct gathered {
    struct network *net;
    const struct graph *graph;
    size_t n;
    struct safetensors_entry *entry;
    char (*name)[NAME_MAX_LEN + 32];
    struct {
        enum param_value value;
        int param;
    } * of;           /* for an entry without data: its kind of value and its parameter */
    int64_t bn_steps; /* num_batches_tracked of every batch norm */
    size_t n_pairs;
    struct safetensors_pair pair[PAIRS_MAX];
    char text[PAIRS_MAX][PAIR_TEXT];
};

static enum status gathered_open(struct gathered *a, struct network *net, const struct graph *g)
{
    *a = (struct gathered){.net = net, .graph = g};
    TRY(array_new(&a->entry, 3 * g->n_params));
    TRY(array_new(&a->of, 3 * g->n_params));
    return array_new(&a->name, 3 * g->n_params);
}

static void gathered_close(struct gathered *a)
{
    free(a->entry);
    free(a->of);
    free(a->name);
}

/* Copies the values of entry `i` to `out`. Fails if a value is not finite: no run could resume from
 * such a checkpoint, and it would replace a good one. */
static enum status gathered_get(void *context, size_t i, void *out)
{
    const struct gathered *a = context;
    const float *x = out;
    TRY(network_get(a->net, a->of[i].value, a->of[i].param, out));
    int64_t n = param_count(&a->graph->param[a->of[i].param]);
    for (int64_t k = 0; k < n; k++)
        if (!isfinite(x[k]))
            return status_fail(STATUS_DIVERGED, "'%s' holds %s", a->name[i],
                               isnan(x[k]) ? "NaN values" : "infinite values");
    return STATUS_OK;
}

static struct safetensors_contents gathered_contents(struct gathered *a)
{
    return (struct safetensors_contents){.entry = a->entry,
                                         .n_entries = a->n,
                                         .pair = a->pair,
                                         .n_pairs = a->n_pairs,
                                         .get = gathered_get,
                                         .context = a};
}

PRINTF_LIKE(3, 4)
static void add_pair(struct gathered *a, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->text[a->n_pairs], PAIR_TEXT, fmt, ap);
    va_end(ap);
    a->pair[a->n_pairs] = (struct safetensors_pair){key, a->text[a->n_pairs]};
    a->n_pairs++;
}

static void add_value(struct gathered *a, enum param_value v, int i)
{
    const struct param *p = &a->graph->param[i];
    struct safetensors_entry *e = &a->entry[a->n];
    snprintf(a->name[a->n], sizeof a->name[a->n], "%s%s",
             v == VALUE_MOMENTUM ? MOMENTUM_PREFIX : "", p->name);
    *e = (struct safetensors_entry){
        .name = a->name[a->n], .dtype = SAFETENSORS_F32, .ndim = p->ndim};
    memcpy(e->dim, p->dim, (size_t)p->ndim * sizeof *e->dim);
    a->of[a->n].value = v;
    a->of[a->n].param = i;
    a->n++;
}

/* Adds a batch norm's entry num_batches_tracked. PyTorch's load_state_dict(strict=True) requires
 * it. */
static void add_bn_counter(struct gathered *a, const struct param *mean)
{
    char *name = a->name[a->n];
    size_t stem = strlen(mean->name) - strlen("running_mean");
    snprintf(name, sizeof a->name[0], "%.*snum_batches_tracked", (int)stem, mean->name);
    a->entry[a->n++] = (struct safetensors_entry){
        .name = name, .dtype = SAFETENSORS_I64, .data = &a->bn_steps, .bytes = sizeof a->bn_steps};
}

static void add_weights(struct gathered *a, int64_t steps)
{
    const struct graph *g = a->graph;
    a->bn_steps = steps;
    add_pair(a, "format", "pt"); /* PyTorch loaders look for this key */
    add_pair(a, "arch", "%s", g->arch);
    for (int i = 0; i < g->n_params; i++) {
        add_value(a, VALUE_WEIGHT, i);
        if (g->param[i].kind == PARAM_BN_MEAN)
            add_bn_counter(a, &g->param[i]);
    }
}

enum status weights_save(const char *path, struct network *net, const struct graph *g,
                         int64_t steps)
{
    enum status st;
    struct gathered a;
    CHECK(gathered_open(&a, net, g));
    add_weights(&a, steps);
    const struct safetensors_contents contents = gathered_contents(&a);
    CHECK(safetensors_write(path, &contents));
done:
    gathered_close(&a);
    return st;
}

/* Adds the settings and the state of the run as metadata. Doubles are written as hexadecimal
 * floats, which are exact. */
static void add_state(struct gathered *a, const struct train_identity *id,
                      const struct train_state *s)
{
    add_pair(a, "ampscale", FORMAT_VERSION);
    add_pair(a, "classes", "%d", id->classes);
    add_pair(a, "image_size", "%d", id->image_size);
    add_pair(a, "batch_size", "%d", id->batch);
    add_pair(a, "world_size", "%d", id->ranks);
    add_pair(a, "seed", "%" PRIu64, id->seed);
    add_pair(a, "data", "%016" PRIx64, id->data);
    add_pair(a, "epoch", "%" PRId64, s->epoch);
    add_pair(a, "batch", "%" PRId64, s->batch);
    add_pair(a, "step", "%" PRId64, s->step);
    add_pair(a, "best_top1", "%a", s->best_top1);
    add_pair(a, "precision", "%s", id->precision);
    add_pair(a, "fuse", "%s", fuse_str(id->fuse));
    add_pair(a, "conv_algorithm", "%s", conv_algorithm_str(id->conv_algorithm));
    add_pair(a, "loss_scale", "%a", s->scaler.scale);
    add_pair(a, "loss_scale_clean", "%" PRId64, s->scaler.clean);
    add_pair(a, "skipped_steps", "%" PRId64, s->scaler.skipped);
    add_pair(a, "epoch_loss_sum", "%a", s->loss_sum);
    add_pair(a, "epoch_count", "%" PRId64, s->count);
    add_pair(a, "epoch_top1", "%" PRId64, s->top1);
    add_pair(a, "epoch_top5", "%" PRId64, s->top5);
    add_pair(a, "epoch_bad_images", "%" PRId64, s->bad_images);
}

enum status checkpoint_prepare(const char *path, struct network *net, const struct graph *g,
                               const struct train_identity *id, const struct train_state *state,
                               struct atomic_file *f)
{
    enum status st;
    struct gathered a;
    *f = (struct atomic_file){0};
    CHECK(gathered_open(&a, net, g));
    add_weights(&a, state->step);
    for (int i = 0; i < g->n_params; i++)
        if (param_is_trained(&g->param[i]))
            add_value(&a, VALUE_MOMENTUM, i);
    add_state(&a, id, state);
    const struct safetensors_contents contents = gathered_contents(&a);
    CHECK(safetensors_prepare(path, &contents, f));
done:
    gathered_close(&a);
    return st;
}

/* Fails with STATUS_DATA because the metadata value `text` of `key` is invalid. If `text` is NULL,
 * the metadata lack `key`. */
static enum status unreadable(const char *path, const char *key, const char *text)
{
    return status_fail(STATUS_DATA, "'%s' is not a checkpoint of a run: its '%s' is %s", path, key,
                       text ? "damaged" : "missing");
}

/* Reads the number that the metadata have under `key`, in base 10 or 16. */
static enum status read_count(const char *path, const struct safetensors *f, const char *key,
                              int base, uint64_t *out)
{
    const char *text = safetensors_metadata(f, key);
    char *end = NULL;
    errno = 0;
    *out = text ? strtoull(text, &end, base) : 0;
    bool sound = text && *text != '\0' && *text != '-' && *end == '\0' && errno == 0;
    return sound ? STATUS_OK : unreadable(path, key, text);
}

static enum status no_sense(const char *path, const char *key)
{
    return status_fail(STATUS_DATA, "'%s' is damaged: the value of '%s' is impossible", path, key);
}

static enum status read_position(const char *path, const struct safetensors *f, const char *key,
                                 int64_t *out)
{
    uint64_t v;
    TRY(read_count(path, f, key, 10, &v));
    if (v > INT64_MAX / 2)
        return no_sense(path, key);
    *out = (int64_t)v;
    return STATUS_OK;
}

static enum status read_real(const char *path, const struct safetensors *f, const char *key,
                             double *out)
{
    const char *text = safetensors_metadata(f, key);
    char *end = NULL;
    *out = text ? strtod(text, &end) : 0;
    return text && *text != '\0' && *end == '\0' ? STATUS_OK : unreadable(path, key, text);
}

static enum status check_same(const char *path, const struct safetensors *f, const char *key,
                              uint64_t want, const char *flag)
{
    uint64_t have;
    TRY(read_count(path, f, key, 10, &have));
    return have == want ? STATUS_OK
                        : status_fail(STATUS_USAGE,
                                      "'%s' was trained with %s %" PRIu64 ", not %" PRIu64
                                      "; give the same value, or start a new run in another --out",
                                      path, flag, have, want);
}

static enum status check_word(const char *path, const struct safetensors *f, const char *key,
                              const char *want, const char *flag)
{
    const char *have = safetensors_metadata(f, key);
    if (!have)
        return unreadable(path, key, have);
    if (strcmp(have, want) == 0)
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "'%s' was trained with %s %s, not %s; give %s %s", path, flag,
                       have, want, flag, have);
}

static enum status check_identity(const char *path, const struct safetensors *f,
                                  const struct train_identity *id)
{
    if (!safetensors_metadata(f, "arch") || !safetensors_metadata(f, "ampscale"))
        return status_fail(STATUS_DATA,
                           "'%s' has weights but no training state to resume; use --init to start "
                           "from the weights",
                           path);
    TRY(check_word(path, f, "arch", id->arch, "-a"));
    TRY(check_word(path, f, "precision", id->precision, "--precision"));
    TRY(check_same(path, f, "classes", (uint64_t)id->classes, "classes"));
    TRY(check_same(path, f, "image_size", (uint64_t)id->image_size, "--image-size"));
    TRY(check_same(path, f, "batch_size", (uint64_t)id->batch, "-b"));
    return check_same(path, f, "seed", id->seed, "--seed");
}

/* Compares the fingerprints of the data. */
static enum status check_data(const char *path, const struct safetensors *f,
                              const struct train_identity *id, struct train_state *s)
{
    uint64_t have;
    TRY(read_count(path, f, "data", 16, &have));
    s->data_before = have == id->data ? 0 : have;
    if (have == id->data || id->data_changed)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "'%s' was trained on other data than the data on the command line; give the "
                       "same data, --data-changed if images were repaired, added or removed, or "
                       "start a new run in another --out",
                       path);
}

/* Reads the checkpoint's position in the epoch, and converts it to this run's number of ranks.
 * Image i of an epoch belongs to rank i % ranks. */
static enum status read_batch(const char *path, const struct safetensors *f,
                              const struct train_identity *id, struct train_state *s)
{
    int64_t then = 0;
    TRY(read_position(path, f, "world_size", &then));
    if (then < 1 || then > 1 << 20)
        return no_sense(path, "world_size");
    /* The position may be a little after this run's last batch. In the run that wrote the
     * checkpoint, a rank may have had one batch more than its full batches: padding adds images,
     * and without --drop-last the last batch may be partly full. */
    int64_t spare = then == id->ranks ? 1 : 2 + 2 * (then / id->ranks);
    if (s->batch > INT64_MAX / (1 << 21))
        return no_sense(path, "batch");
    s->batch = s->batch * then / id->ranks;
    bool sound = id->batches == 0 || s->data_before || s->batch <= id->batches + spare;
    return sound ? STATUS_OK : no_sense(path, "batch");
}

/* Checks the state's values. The checksum shows that the bytes are unchanged since they were
 * written, but not that a run can resume from them. */
static enum status check_state(const char *path, const struct train_state *s)
{
    const struct {
        const char *key;
        bool sound;
    } rule[] = {
        {"epoch", s->epoch <= COUNT_MAX},
        {"best_top1", s->best_top1 >= 0 && s->best_top1 <= 100},
        {"loss_scale", isfinite(s->scaler.scale) && s->scaler.scale > 0},
        {"loss_scale_clean", s->scaler.clean <= s->step},
        {"skipped_steps", s->scaler.skipped <= s->step},
        {"epoch_loss_sum", isfinite(s->loss_sum)},
        {"epoch_count", s->count <= COUNT_MAX},
        {"epoch_top5", s->top5 <= s->count},
        {"epoch_top1", s->top1 <= s->top5},
        {"epoch_bad_images", s->bad_images <= COUNT_MAX},
    };
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        if (!rule[i].sound)
            return no_sense(path, rule[i].key);
    return STATUS_OK;
}

static enum status read_state(const char *path, const struct safetensors *f, struct train_state *s)
{
    TRY(read_position(path, f, "epoch", &s->epoch));
    TRY(read_position(path, f, "batch", &s->batch));
    TRY(read_position(path, f, "step", &s->step));
    TRY(read_real(path, f, "best_top1", &s->best_top1));
    TRY(read_real(path, f, "loss_scale", &s->scaler.scale));
    TRY(read_position(path, f, "loss_scale_clean", &s->scaler.clean));
    TRY(read_position(path, f, "skipped_steps", &s->scaler.skipped));
    TRY(read_real(path, f, "epoch_loss_sum", &s->loss_sum));
    TRY(read_position(path, f, "epoch_count", &s->count));
    TRY(read_position(path, f, "epoch_top1", &s->top1));
    TRY(read_position(path, f, "epoch_top5", &s->top5));
    TRY(read_position(path, f, "epoch_bad_images", &s->bad_images));
    return check_state(path, s);
}

/* Opens a file that this program has written. STATUS_DATA for a file without a checksum or with
 * unknown types. */
static enum status open_checked(const char *path, struct safetensors **f)
{
    enum status st = safetensors_open(path, f);
    if (st == STATUS_UNSUPPORTED)
        return status_context(STATUS_DATA, "damaged checkpoint");
    TRY(st);
    if (safetensors_checked(*f))
        return STATUS_OK;
    safetensors_close(*f);
    return status_fail(STATUS_DATA,
                       "'%s' has no checksum: it is damaged, or not a checkpoint of a run; use "
                       "--init to start from weights of another program",
                       path);
}

enum status checkpoint_state(const char *path, struct train_state *state)
{
    struct safetensors *f;
    TRY(open_checked(path, &f));
    enum status st = read_state(path, f, state);
    safetensors_close(f);
    return st;
}

enum status checkpoint_kept(const char *path, struct train_identity *id)
{
    struct safetensors *file;
    enum status st = open_checked(path, &file);
    if (st != STATUS_OK)
        return st == STATUS_DATA ? STATUS_OK : st;
    const char *word = safetensors_metadata(file, "fuse"),
               *conv = safetensors_metadata(file, "conv_algorithm");
    for (enum fuse f = 0; word && f < FUSE_COUNT; f++)
        if (strcmp(word, fuse_str(f)) == 0)
            id->fuse = f;
    id->conv_algorithm = CONV_DIRECT; /* old files do not have the key */
    for (enum conv_algorithm a = CONV_AUTO; conv && a <= CONV_WINOGRAD; a++)
        if (strcmp(conv, conv_algorithm_str(a)) == 0)
            id->conv_algorithm = a;
    safetensors_close(file);
    return STATUS_OK;
}

enum status checkpoint_load(const char *path, struct network *net, const struct graph *g,
                            const struct train_identity *id, struct train_state *state)
{
    enum status st;
    struct safetensors *f;
    struct train_state s = {0};
    TRY(open_checked(path, &f));
    CHECK(check_identity(path, f, id));
    CHECK(check_data(path, f, id, &s));
    CHECK(read_state(path, f, &s));
    CHECK(read_batch(path, f, id, &s));
    CHECK(state_dict_load(path, f, net, g, true, NULL));
    *state = s;
done:
    safetensors_close(f);
    return st;
}
