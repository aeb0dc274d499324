/* Reading and checking a study. */
#include "study/spec.h"

#include "base/file.h"
#include "base/json_keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SPEC_MAX_BYTES = 1 << 20 };

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
            return status_fail(STATUS_USAGE,
                               "'modes.ddp2': %" PRId64 " devices are no two or more ranks of "
                               "'devices_per_rank', %" PRId64,
                               ddp2->v[i], s->devices_per_rank);
    return STATUS_OK;
}

/* Every device must get as many images as the others. */
static enum status check_strong(const struct study_spec *s)
{
    for (int m = 0; m < STUDY_MODES; m++)
        for (int d = 0; d < s->devices[m].n; d++)
            for (int b = 0; b < s->strong.n; b++)
                if (s->strong.v[b] % s->devices[m].v[d] != 0)
                    return status_fail(STATUS_USAGE,
                                       "'batch.strong': %" PRId64 " images cannot be shared by "
                                       "%" PRId64 " devices of mode %s",
                                       s->strong.v[b], s->devices[m].v[d], mode_names[m]);
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
        return status_fail(STATUS_USAGE, "'batch' has neither 'weak' nor 'strong'");
    return check_strong(s);
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
    TRY(keys_text(object, "data", "name", true, d->name, sizeof d->name));
    if (!keys_is_name(d->name))
        return status_fail(STATUS_USAGE,
                           "'data.name' must be of letters, digits, '-', '_' and '.'");
    if (!generate && !folder)
        return read_tensors(object, d);
    if (generate && folder)
        return status_fail(STATUS_USAGE, "data '%s' has both 'generate' and 'folder'", d->name);
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
                return status_fail(STATUS_USAGE, "'data' has '%s' twice", d->name);
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

/* Flags of train that the study sets itself. */
static enum status check_train(const json_t *train)
{
    static const char *const taken[] = {"-a",
                                        "--arch",
                                        "-b",
                                        "--batch-size",
                                        "-j",
                                        "--workers",
                                        "--out",
                                        "--mode",
                                        "--devices",
                                        "--precision",
                                        "--opt-level",
                                        "--threads",
                                        "--seed",
                                        "--steps",
                                        "--epochs",
                                        "--dummy",
                                        "--image-size",
                                        "--resume",
                                        "--dummy-train",
                                        "--dummy-val",
                                        "--classes",
                                        "-e",
                                        "--evaluate",
                                        NULL};
    for (size_t i = 0; train && i < json_array_size(train); i++) {
        const char *word = json_string_value(json_array_get(train, i));
        size_t n = strcspn(word, "=");
        for (const char *const *t = taken; *t; t++)
            if (strlen(*t) == n && strncmp(word, *t, n) == 0)
                return status_fail(STATUS_USAGE, "'train': the study itself sets '%s'", *t);
    }
    return STATUS_OK;
}

static enum status read_root(const json_t *root, struct study_spec *s)
{
    static const char *const known[] = {
        "schema",         "name",       "about",   "modes",   "devices_per_rank",
        "device",         "precisions", "archs",   "batch",   "data",
        "image_size",     "threads",    "workers", "repeats", "warmup_steps",
        "measured_steps", "epochs",     "seed",    "limit_s", "train",
        "launcher",       NULL};
    int64_t schema;
    char about[240];
    TRY(keys_check(root, "", known));
    TRY(keys_count(root, "", "schema", true, STUDY_SCHEMA, STUDY_SCHEMA, &schema));
    TRY(keys_text(root, "", "name", true, s->name, sizeof s->name));
    if (!keys_is_name(s->name))
        return status_fail(STATUS_USAGE, "'name' must be of letters, digits, '-', '_' and '.'");
    TRY(keys_text(root, "", "about", true, about, sizeof about));
    s->about = json_string_value(json_object_get(root, "about"));
    TRY(read_modes(root, s));
    TRY(read_device(root, s));
    TRY(keys_names(root, "precisions", s->precisions.v[0], STUDY_NAME_SIZE, STUDY_MAX_LIST,
                   &s->precisions.n));
    TRY(keys_names(root, "archs", s->archs.v[0], STUDY_NAME_SIZE, STUDY_MAX_LIST, &s->archs.n));
    TRY(read_batch(root, s));
    TRY(read_data(root, s));
    TRY(keys_count(root, "", "image_size", true, 1, 4096, &s->image_size));
    TRY(keys_count(root, "", "threads", false, 1, 1024, &s->threads));
    TRY(keys_count(root, "", "workers", true, 1, 1024, &s->workers));
    TRY(read_length(root, s));
    TRY(keys_words(root, "train", &s->train));
    TRY(check_train(s->train));
    return keys_words(root, "launcher", &s->launcher);
}

enum status study_spec_parse(const char *text, size_t size, const char *from,
                             struct study_spec *spec)
{
    json_error_t error;
    *spec = (struct study_spec){0};
    spec->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!spec->json)
        return status_fail(STATUS_USAGE, "'%s' line %d: %s", from, error.line, error.text);
    enum status st = read_root(spec->json, spec);
    if (st == STATUS_OK)
        return st;
    study_spec_free(spec);
    return status_context(st, "'%s'", from);
}

static bool is_path(const char *name)
{
    return strchr(name, '/') || strchr(name, '.');
}

static enum status unknown_preset(const char *name)
{
    char known[128] = "";
    for (const char *const *p = study_presets; *p; p++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", *p);
    }
    return status_fail(STATUS_USAGE, "no preset '%s': there are %s; a file's name has a '.' or '/'",
                       name, known);
}

enum status study_spec_load(const char *name, struct study_spec *spec)
{
    char *bytes;
    size_t size;
    const char *preset = study_preset(name);
    *spec = (struct study_spec){0};
    if (preset)
        return study_spec_parse(preset, strlen(preset), name, spec);
    if (!is_path(name))
        return unknown_preset(name);
    TRY(file_read(name, SPEC_MAX_BYTES, &bytes, &size));
    enum status st = study_spec_parse(bytes, size, name, spec);
    free(bytes);
    return st;
}

void study_spec_free(struct study_spec *spec)
{
    json_decref(spec->json);
    *spec = (struct study_spec){0};
}
