/* Reads and checks the specification of a study. */
#include "study/study_spec.h"

#include "base/json.h"
#include "base/json_keys.h"

#include <inttypes.h>
#include <string.h>

/* presets/NAME.json, compiled in. */
extern const unsigned char study_quick_json[], study_hal_json[];

const struct preset study_presets[] = {{"quick", study_quick_json}, {"hal", study_hal_json}, {0}};

#define COUNT_MAX ((int64_t)1 << 40)

static const char *const mode_names[STUDY_MODES + 1] = {"nd", "dp", "ddp", "ddp2", NULL};

const char *study_mode_str(enum study_mode mode)
{
    return mode_names[mode];
}

static enum status read_modes(const json_t *root, struct study_spec *s)
{
    const json_t *modes = json_object_get(root, "modes");
    TRY(keys_check(modes, "modes", mode_names));
    if (json_object_size(modes) == 0)
        return status_fail(STATUS_USAGE, "'modes' is empty");
    for (int m = 0; m < STUDY_MODES; m++) {
        int64_t min = m == STUDY_ND ? 1 : 2, max = m == STUDY_ND   ? 1
                                                   : m == STUDY_DP ? 64
                                                                   : STUDY_MAX_DEVICES;
        TRY(keys_counts(modes, "modes", mode_names[m], min, max, s->devices[m].v, STUDY_MAX_LIST,
                        &s->devices[m].n));
    }
    const struct study_counts *ddp2 = &s->devices[STUDY_DDP2];
    TRY(keys_count(root, "", "devices_per_rank", ddp2->n > 0, 2, 64, &s->devices_per_rank));
    for (int i = 0; i < ddp2->n; i++)
        if (ddp2->v[i] % s->devices_per_rank != 0 || ddp2->v[i] == s->devices_per_rank)
            return status_fail(
                STATUS_USAGE,
                "'modes.ddp2': %" PRId64
                " devices cannot be divided into two or more ranks; 'devices_per_rank' is %" PRId64,
                ddp2->v[i], s->devices_per_rank);
    return STATUS_OK;
}

static enum status read_batch(const json_t *root, struct study_spec *s)
{
    static const char *const known[] = {"weak", "strong", NULL};
    const json_t *batch = json_object_get(root, "batch");
    TRY(keys_check(batch, "batch", known));
    TRY(keys_counts(batch, "batch", "weak", 1, 65536, s->weak.v, STUDY_MAX_LIST, &s->weak.n));
    TRY(keys_counts(batch, "batch", "strong", 1, COUNT_MAX, s->strong.v, STUDY_MAX_LIST,
                    &s->strong.n));
    if (s->weak.n + s->strong.n == 0)
        return status_fail(STATUS_USAGE, "'batch' needs 'weak' or 'strong'");
    /* Checks that strong scaling gives every device the same number of images. */
    for (int m = 0; m < STUDY_MODES; m++)
        for (int d = 0; d < s->devices[m].n; d++)
            for (int b = 0; b < s->strong.n; b++)
                if (s->strong.v[b] % s->devices[m].v[d] != 0)
                    return status_fail(STATUS_USAGE,
                                       "'batch.strong': %" PRId64
                                       " images cannot be divided among %" PRId64
                                       " devices of mode %s",
                                       s->strong.v[b], s->devices[m].v[d], mode_names[m]);
    return STATUS_OK;
}

static enum status read_generate(const json_t *generate, struct study_data *d)
{
    static const char *const known[] = {"classes", "train", "val", "size", "seed", NULL};
    TRY(keys_check(generate, "data.generate", known));
    d->generated = true;
    TRY(keys_count(generate, "data.generate", "classes", true, 1, 100000, &d->classes));
    TRY(keys_count(generate, "data.generate", "train", true, 1, 1000000, &d->train));
    TRY(keys_count(generate, "data.generate", "val", true, 1, 1000000, &d->val));
    TRY(keys_count(generate, "data.generate", "size", true, 1, 100000, &d->size));
    return keys_count(generate, "data.generate", "seed", false, 0, COUNT_MAX, &d->seed);
}

static enum status read_tensors(const json_t *object, struct study_data *d)
{
    TRY(keys_count(object, "data", "classes", true, 1, 1000000, &d->classes));
    TRY(keys_count(object, "data", "train", true, 1, COUNT_MAX, &d->train));
    return keys_count(object, "data", "val", true, 1, COUNT_MAX, &d->val);
}

static enum status read_one_data(const json_t *object, struct study_data *d)
{
    static const char *const all[] = {"name",     "classes", "train", "val",
                                      "generate", "folder",  NULL};
    static const char *const images[] = {"name", "generate", "folder", NULL};
    TRY(keys_check(object, "data", all));
    const json_t *generate = json_object_get(object, "generate");
    const json_t *folder = json_object_get(object, "folder");
    TRY(keys_name(object, "data", "name", d->name, sizeof d->name));
    if (!generate && !folder)
        return read_tensors(object, d);
    if (generate && folder)
        return status_fail(STATUS_USAGE,
                           "data '%s' has both 'generate' and 'folder'; give one of them", d->name);
    TRY(keys_check(object, "data", images));
    if (generate)
        return read_generate(generate, d);
    return keys_text(object, "data", "folder", true, d->folder, sizeof d->folder);
}

static enum status read_data(const json_t *root, struct study_spec *s)
{
    const json_t *list = json_object_get(root, "data");
    if (json_array_size(list) < 1 || json_array_size(list) > STUDY_MAX_LIST)
        return status_fail(STATUS_USAGE, "'data' must be a list of 1 to %d data sets",
                           STUDY_MAX_LIST);
    for (s->n_data = 0; s->n_data < (int)json_array_size(list); s->n_data++) {
        struct study_data *d = &s->data[s->n_data];
        TRY(read_one_data(json_array_get(list, (size_t)s->n_data), d));
        for (int i = 0; i < s->n_data; i++)
            if (strcmp(s->data[i].name, d->name) == 0)
                return status_fail(STATUS_USAGE, "'data' has two sets named '%s'", d->name);
    }
    return STATUS_OK;
}

static enum status read_device(const json_t *root, struct study_spec *s)
{
    static const char *const known[] = {"cpu", "cuda", "ref"};
    strcpy(s->device, known[0]);
    TRY(keys_text(root, "", "device", false, s->device, sizeof s->device));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(s->device, known[i]) == 0)
            return STATUS_OK;
    return status_fail(STATUS_USAGE, "'device' must be cpu, cuda or ref");
}

static enum status read_length(const json_t *root, struct study_spec *s)
{
    TRY(keys_count(root, "", "repeats", true, 1, 64, &s->repeats));
    TRY(keys_count(root, "", "warmup_steps", true, 0, COUNT_MAX, &s->warmup_steps));
    TRY(keys_count(root, "", "measured_steps", false, 1, COUNT_MAX, &s->measured_steps));
    TRY(keys_count(root, "", "epochs", false, 1, 1000000, &s->epochs));
    if (!s->measured_steps == !s->epochs)
        return status_fail(STATUS_USAGE, "give one of 'measured_steps' and 'epochs'");
    TRY(keys_count(root, "", "seed", false, 0, COUNT_MAX, &s->seed));
    return keys_count(root, "", "limit_s", false, 1, 100000000, &s->limit_s);
}

/* Whether a word of the command line sets this flag of train. train accepts the first letters of a
 * long flag, "--ou=DIR", and a short flag with its value, "-b2". */
static bool sets_flag(const char *word, const char *flag)
{
    if (strncmp(flag, "--", 2) != 0)
        return strncmp(word, flag, 2) == 0;
    size_t n = strcspn(word, "=");
    return n > 2 && strncmp(word, flag, n) == 0;
}

/* Refuses flags of train that the study sets itself. Also refuses "--", because train does not read
 * the words after "--" as flags. */
static enum status check_train(const json_t *train)
{
    static const char *const taken[] = {
        "--arch",      "--batch-size", "--classes",  "--devices",    "--dummy", "--dummy-train",
        "--dummy-val", "--epochs",     "--evaluate", "--image-size", "--mode",  "--opt-level",
        "--out",       "--precision",  "--resume",   "--seed",       "--steps", "--threads",
        "--workers",   "-a",           "-b",         "-e",           "-j",      NULL};
    for (size_t i = 0; train && i < json_array_size(train); i++) {
        const char *word = json_string_value(json_array_get(train, i));
        if (strcmp(word, "--") == 0)
            return status_fail(STATUS_USAGE, "'train': '--' is no flag");
        for (const char *const *t = taken; *t; t++)
            if (sets_flag(word, *t))
                return status_fail(STATUS_USAGE,
                                   "'train' must not contain '%s': the study sets '%s'", word, *t);
    }
    return STATUS_OK;
}

/* Takes over `json`. */
static enum status read_spec(json_t *json, const char *from, struct study_spec *spec)
{
    static const char *const known[] = {
        "schema",         "name",       "about",   "modes",   "devices_per_rank",
        "device",         "precisions", "archs",   "batch",   "data",
        "image_size",     "threads",    "workers", "repeats", "warmup_steps",
        "measured_steps", "epochs",     "seed",    "limit_s", "train",
        "launcher",       NULL};
    int64_t schema;
    char about[240];
    enum status st;
    *spec = (struct study_spec){.json = json};
    CHECK(keys_check(json, "", known));
    CHECK(keys_count(json, "", "schema", true, STUDY_SCHEMA, STUDY_SCHEMA, &schema));
    CHECK(keys_name(json, "", "name", spec->name, sizeof spec->name));
    CHECK(keys_text(json, "", "about", true, about, sizeof about));
    spec->about = json_string_value(json_object_get(json, "about"));
    CHECK(read_modes(json, spec));
    CHECK(read_device(json, spec));
    CHECK(keys_names(json, "precisions", spec->precisions.v[0], STUDY_NAME_SIZE, STUDY_MAX_LIST,
                     &spec->precisions.n));
    CHECK(keys_names(json, "archs", spec->archs.v[0], STUDY_NAME_SIZE, STUDY_MAX_LIST,
                     &spec->archs.n));
    CHECK(read_batch(json, spec));
    CHECK(read_data(json, spec));
    CHECK(keys_count(json, "", "image_size", true, 1, 4096, &spec->image_size));
    CHECK(keys_count(json, "", "threads", false, 1, 1024, &spec->threads));
    CHECK(keys_count(json, "", "workers", true, 1, 1024, &spec->workers));
    CHECK(read_length(json, spec));
    CHECK(keys_words(json, "train", &spec->train));
    CHECK(check_train(spec->train));
    CHECK(keys_words(json, "launcher", &spec->launcher));
    return STATUS_OK;
done:
    study_spec_free(spec);
    return status_context(st, "'%s'", from);
}

enum status study_spec_parse(const char *text, size_t size, const char *from,
                             struct study_spec *spec)
{
    json_t *json;
    if (json_parse(text, size, from, &json) != STATUS_OK)
        return STATUS_USAGE;
    return read_spec(json, from, spec);
}

enum status study_spec_load(const char *name, struct study_spec *spec)
{
    json_t *json;
    TRY(preset_load(study_presets, "preset", name, &json));
    return read_spec(json, name, spec);
}

void study_spec_free(struct study_spec *spec)
{
    json_decref(spec->json);
    *spec = (struct study_spec){0};
}
