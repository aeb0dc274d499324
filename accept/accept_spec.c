/* Reads a spec, and selects its checks. */
#include "accept/accept_spec.h"

#include "accept/accept_kind.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_keys.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHERE_SIZE = 256,
    BASE_SIZE = ACCEPT_NAME_SIZE - 4, /* size of a check's name without the device number ".N" */
};

/* specs/NAME.json, compiled in. */
extern const unsigned char accept_cpu_json[], accept_h200_json[], accept_h100_json[],
    accept_a100_json[], accept_v100_json[], accept_bring_up_json[], accept_bring_up_quick_json[];

const struct preset accept_presets[] = {{"cpu", accept_cpu_json},
                                        {"h200", accept_h200_json},
                                        {"h100", accept_h100_json},
                                        {"a100", accept_a100_json},
                                        {"v100", accept_v100_json},
                                        {"bring-up", accept_bring_up_json},
                                        {"bring-up-quick", accept_bring_up_quick_json},
                                        {0}};

static enum status read_limits(const json_t *object, const char *where, struct accept_check *c)
{
    const char *metric;
    json_t *value;
    char at[WHERE_SIZE];
    size_t n = json_object_size(object);
    if (object && !json_is_object(object))
        return status_fail(STATUS_USAGE, "'%s.limits' must be an object", where);
    if (n > ACCEPT_LIMITS_MAX)
        return status_fail(STATUS_USAGE, "'%s.limits' has more than %d metrics", where,
                           ACCEPT_LIMITS_MAX);
    TRY(array_new(&c->limit, n));
    json_object_foreach((json_t *)object, metric, value)
    {
        TRY(path_format(at, sizeof at, "%s.limits.%.64s", where, metric));
        TRY(accept_limit_parse(value, metric, at, &c->limit[c->n_limits]));
        c->n_limits++;
    }
    return STATUS_OK;
}

static enum status read_kind(const json_t *object, const char *where, struct accept_check *c)
{
    char kind[ACCEPT_NAME_SIZE], known[512] = "";
    TRY(keys_text(object, where, "kind", true, kind, sizeof kind));
    c->kind = accept_kind_find(kind);
    if (c->kind)
        return STATUS_OK;
    for (const struct accept_kind *k = accept_kinds; k->name; k++)
        text_join(known, sizeof known, ", ", "%s", k->name);
    return status_fail(STATUS_USAGE, "'%s.kind': unknown kind '%.40s'; known: %s", where, kind,
                       known);
}

static enum status read_counts(const json_t *object, const char *where, struct accept_check *c)
{
    int64_t level = 0, pass = 0, repeats = 1, seconds = 0;
    TRY(keys_count(object, where, "level", true, 1, ACCEPT_LEVEL_MAX, &level));
    TRY(keys_count(object, where, "pass", false, 1, ACCEPT_PASS_MAX, &pass));
    TRY(keys_count(object, where, "repeats", false, 1, ACCEPT_REPEATS_MAX, &repeats));
    TRY(keys_count(object, where, "seconds", true, 1, 1000000, &seconds));
    TRY(keys_count(object, where, "limit_s", true, 1, 1000000, &c->limit_s));
    c->level = (int)level;
    c->pass = (int)pass;
    c->repeats = (int)repeats;
    c->seconds = (double)seconds;
    return STATUS_OK;
}

static enum status read_check(const json_t *object, int index, struct accept_check *c, bool *each)
{
    static const char *const known[] = {"name",    "kind", "level",   "args",   "each", "repeats",
                                        "seconds", "burn", "limit_s", "limits", "pass", NULL};
    char where[WHERE_SIZE];
    snprintf(where, sizeof where, "checks[%d]", index);
    *c = (struct accept_check){.device = -1, .together = 1, .asked = true};
    *each = false;
    TRY(keys_check(object, where, known));
    TRY(keys_name(object, where, "name", c->name, BASE_SIZE));
    TRY(read_kind(object, where, c));
    TRY(read_counts(object, where, c));
    TRY(keys_flag(object, where, "burn", &c->burn));
    TRY(keys_flag(object, where, "each", each));
    if (*each && !c->kind->on_device)
        return status_fail(STATUS_USAGE, "'%s.each': a check of kind %s does not run on a device",
                           where, c->kind->name);
    c->args = json_object_get(object, "args");
    TRY(accept_args_check(c->kind, c->args, where));
    return read_limits(json_object_get(object, "limits"), where, c);
}

static enum status set_device(struct accept_check *c, const char *base, int device)
{
    c->device = device;
    return path_format(c->name, sizeof c->name, "%s.%d", base, device);
}

/* Adds a copy of the last check, for another device. */
static enum status copy_check(struct accept_spec *s, const char *name, int device)
{
    const struct accept_check *from = &s->check[s->n_checks - 1];
    struct accept_check *c = &s->check[s->n_checks];
    if (s->n_checks == ACCEPT_CHECKS_MAX)
        return status_fail(STATUS_USAGE, "the spec has more than %d checks", ACCEPT_CHECKS_MAX);
    *c = *from;
    TRY(array_new(&c->limit, from->n_limits));
    memcpy(c->limit, from->limit, (size_t)from->n_limits * sizeof *c->limit);
    s->n_checks++;
    return set_device(c, name, device);
}

static enum status add_check(const json_t *object, int index, struct accept_spec *s)
{
    char name[ACCEPT_NAME_SIZE];
    bool each;
    struct accept_check *c = &s->check[s->n_checks];
    if (s->n_checks == ACCEPT_CHECKS_MAX)
        return status_fail(STATUS_USAGE, "the spec has more than %d checks", ACCEPT_CHECKS_MAX);
    s->n_checks++; /* before read_check, so that accept_spec_free frees the check even if read_check
                    * fails */
    TRY(read_check(object, index, c, &each));
    if (c->kind->on_gpus && strcmp(s->device, "cuda") != 0)
        return status_fail(STATUS_USAGE, "'checks[%d].kind': '%s' needs the 'device' cuda", index,
                           c->kind->name);
    if (c->kind->on_gpus && s->n_devices == 1) { /* it needs several GPUs */
        free(c->limit);
        s->n_checks--;
        return STATUS_OK;
    }
    if (c->kind->on_device)
        c->device = s->only_device;
    if (!each)
        return STATUS_OK;
    strcpy(name, c->name);
    TRY(set_device(c, name, s->only_device < 0 ? 0 : s->only_device));
    for (int d = 1; d < s->n_devices; d++)
        TRY(copy_check(s, name, d));
    if (c->burn) /* a burn-in runs on all devices at once, for the heat and power of a fully loaded
                  * node */
        c->together = s->n_devices;
    return STATUS_OK;
}

/* Adds the check "hardware", which runs before all others. */
static enum status add_hardware(struct accept_spec *s)
{
    struct accept_check *c = &s->check[s->n_checks++];
    *c = (struct accept_check){.name = "hardware",
                               .kind = accept_kind_find("facts"),
                               .level = 1,
                               .asked = true,
                               .device = -1,
                               .repeats = 1,
                               .together = 1,
                               .seconds = 1,
                               .limit_s = 120};
    TRY(array_new(&c->limit, 2));
    c->n_limits = 2;
    for (int i = 0; i < 2; i++) {
        struct accept_limit *l = &c->limit[i];
        l->min = l->max = l->warn_min = l->warn_max = l->baseline = NAN;
        l->within = l->warn_within = l->fleet_within = l->fleet_warn_within = NAN;
        snprintf(l->source, sizeof l->source, "what the spec is for");
    }
    snprintf(c->limit[0].metric, sizeof c->limit[0].metric, "devices");
    c->limit[0].min = s->n_devices;
    snprintf(c->limit[1].metric, sizeof c->limit[1].metric, "device");
    for (int i = 0; i < s->n_patterns; i++) {
        char pattern[ACCEPT_MATCHES_SIZE];
        text_clean(pattern, sizeof pattern, s->pattern[i]);
        if (!text_join(c->limit[1].matches, ACCEPT_MATCHES_SIZE, "|", "%s", pattern))
            return status_fail(STATUS_USAGE, "'hardware': the patterns together are too long");
    }
    return STATUS_OK;
}

static enum status read_hardware(const json_t *root, struct accept_spec *s)
{
    const json_t *list;
    TRY(keys_words(root, "hardware", &list));
    if (!list)
        return status_fail(STATUS_USAGE, "'hardware' is missing; [\"*\"] stands for any hardware");
    if (json_array_size(list) > ACCEPT_PATTERNS_MAX)
        return status_fail(STATUS_USAGE, "'hardware' has more than %d patterns",
                           ACCEPT_PATTERNS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        char *out = s->pattern[s->n_patterns++];
        if (!*text || strlen(text) >= sizeof s->pattern[0])
            return status_fail(STATUS_USAGE, "'hardware': a pattern must have 1 to %d characters",
                               ACCEPT_TEXT_SIZE - 1);
        strcpy(out, text);
    }
    return STATUS_OK;
}

/* Reads the member "device"; "cuda:2" selects that GPU alone. */
static enum status read_device(const char *text, struct accept_spec *s)
{
    char *end;
    long index = strncmp(text, "cuda:", 5) == 0 && isdigit((unsigned char)text[5])
                     ? strtol(text + 5, &end, 10)
                     : -1;
    s->only_device = -1;
    if (index >= 0 && index < ACCEPT_DEVICES_MAX && !*end) {
        s->only_device = (int)index;
        strcpy(s->device, "cuda");
        return STATUS_OK;
    }
    if (strcmp(text, "cpu") != 0 && strcmp(text, "ref") != 0 && strcmp(text, "cuda") != 0)
        return status_fail(STATUS_USAGE,
                           "'device' must be cpu, ref, cuda or one GPU, such as cuda:0");
    strcpy(s->device, text);
    return STATUS_OK;
}

static enum status read_devices(const json_t *root, int devices, struct accept_spec *s)
{
    int64_t n = 1;
    char device[ACCEPT_NAME_SIZE] = "";
    TRY(keys_text(root, "", "device", true, device, sizeof device));
    TRY(read_device(device, s));
    TRY(keys_count(root, "", "devices", false, 1, ACCEPT_DEVICES_MAX, &n));
    s->n_devices = devices ? devices : (int)n;
    if (s->n_devices > 1 && (strcmp(s->device, "cuda") != 0 || s->only_device >= 0))
        return status_fail(STATUS_USAGE, "'device': '%s' is a single device, but 'devices' is %d",
                           device, s->n_devices);
    return STATUS_OK;
}

static enum status read_checks(const json_t *root, struct accept_spec *s)
{
    const json_t *list = json_object_get(root, "checks");
    size_t n = json_array_size(list);
    if (n < 1 || n > ACCEPT_CHECKS_MAX - 1)
        return status_fail(STATUS_USAGE, "'checks' must be a list of 1 to %d checks",
                           ACCEPT_CHECKS_MAX - 1);
    for (size_t i = 0; i < n; i++)
        TRY(add_check(json_array_get(list, i), (int)i, s));
    for (int i = 0; i < s->n_checks; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(s->check[i].name, s->check[k].name) == 0)
                return status_fail(
                    STATUS_USAGE, "two checks have the name '%s'%s", s->check[i].name,
                    k == 0 ? ", which is reserved for the check that accept runs first" : "");
    return STATUS_OK;
}

/* Replaces the spec's device and removes its number of devices; does nothing if `device` is
 * NULL. */
static void set_spec_device(json_t *root, const char *device)
{
    if (!device || !json_is_object(root))
        return;
    json_put(root, "device", json_utf8(device));
    json_object_del(root, "devices");
}

/* Takes over `json`. */
static enum status read_spec(json_t *json, const char *from, const char *device, int devices,
                             struct accept_spec *spec)
{
    static const char *const known[] = {"schema",  "name",     "about",  "device",
                                        "devices", "hardware", "checks", NULL};
    int64_t schema;
    char about[ACCEPT_SOURCE_SIZE];
    enum status st;
    *spec = (struct accept_spec){.json = json};
    set_spec_device(json, device);
    CHECK(keys_check(json, "", known));
    CHECK(keys_count(json, "", "schema", true, ACCEPT_SPEC_SCHEMA, ACCEPT_SPEC_SCHEMA, &schema));
    CHECK(keys_name(json, "", "name", spec->name, sizeof spec->name));
    CHECK(keys_text(json, "", "about", true, about, sizeof about));
    spec->about = json_string_value(json_object_get(json, "about"));
    CHECK(read_devices(json, devices, spec));
    CHECK(read_hardware(json, spec));
    CHECK(array_new(&spec->check, ACCEPT_CHECKS_MAX));
    CHECK(add_hardware(spec));
    CHECK(read_checks(json, spec));
    return STATUS_OK;
done:
    accept_spec_free(spec);
    return status_context(st, "'%s'", from);
}

enum status accept_spec_parse(const char *text, size_t size, const char *from, int devices,
                              struct accept_spec *spec)
{
    json_t *json;
    if (json_parse(text, size, from, &json) != STATUS_OK)
        return STATUS_USAGE;
    return read_spec(json, from, NULL, devices, spec);
}

enum status accept_spec_load(const char *name, const char *device, int devices,
                             struct accept_spec *spec)
{
    json_t *json;
    TRY(preset_load(accept_presets, "spec", name, &json));
    return read_spec(json, name, device, devices, spec);
}

void accept_spec_free(struct accept_spec *spec)
{
    for (int i = 0; spec->check && i < spec->n_checks; i++)
        free(spec->check[i].limit);
    free(spec->check);
    json_decref(spec->json);
    *spec = (struct accept_spec){0};
}

/* --- selection of checks --- */

static enum status no_such_check(const struct accept_spec *spec, const char *name, size_t n)
{
    char known[512] = "";
    for (int i = 1; i < spec->n_checks; i++)
        text_join(known, sizeof known, ", ", "%s", spec->check[i].name);
    return status_fail(STATUS_USAGE, "no check '%.*s' in '%s'; its checks are %s",
                       n < ACCEPT_NAME_SIZE ? (int)n : ACCEPT_NAME_SIZE, name, spec->name, known);
}

static enum status select_names(struct accept_spec *spec, const char *only)
{
    for (int i = 1; i < spec->n_checks; i++)
        spec->check[i].asked = false;
    for (const char *at = only;; at++) {
        size_t n = strcspn(at, ",");
        bool found = false;
        for (int i = 1; i < spec->n_checks; i++) {
            struct accept_check *c = &spec->check[i];
            /* The name "selftest" also selects the copies for single devices, such as
             * "selftest.0". */
            bool named = strncmp(c->name, at, n) == 0 &&
                         (c->name[n] == '\0' || (c->name[n] == '.' && c->device >= 0));
            c->asked = c->asked || named;
            found = found || named;
        }
        if (!found)
            return no_such_check(spec, at, n);
        at += n;
        if (!*at)
            return STATUS_OK;
    }
}

enum status accept_spec_select(struct accept_spec *spec, const char *only, int pass)
{
    bool any = pass == 0;
    if (only)
        TRY(select_names(spec, only));
    for (int i = 1; i < spec->n_checks; i++) {
        struct accept_check *c = &spec->check[i];
        any = any || c->pass == pass;
        c->asked = c->asked && (pass == 0 || c->pass == pass);
    }
    return any ? STATUS_OK
               : status_fail(STATUS_USAGE, "no check of '%s' belongs to pass %d", spec->name, pass);
}

const struct accept_limit *accept_limit_for(const struct accept_check *check, const char *metric)
{
    for (int i = 0; i < check->n_limits; i++)
        if (strcmp(check->limit[i].metric, metric) == 0)
            return &check->limit[i];
    for (int i = 0; i < check->n_limits; i++)
        if (strpbrk(check->limit[i].metric, "*?") && accept_matches(check->limit[i].metric, metric))
            return &check->limit[i];
    return NULL;
}
