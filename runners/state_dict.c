/* Reads weights from a PyTorch state_dict, and writes those of a checkpoint as one. */
#include "runners/checkpoint.h"

#include "base/array.h"
#include "base/file.h"
#include "base/half.h"
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_momentum(const char *name)
{
    return strncmp(name, MOMENTUM_PREFIX, strlen(MOMENTUM_PREFIX)) == 0;
}

/* A file whose tensors are loaded. */
struct source {
    const struct safetensors *f;
    const char *path;
    bool momentum;
    char prefix[32]; /* of the names of all weights */
};

/* Sets the prefix to what PyTorch's wrappers have put before the first parameter's name. */
static void find_prefix(struct source *s, const struct graph *g)
{
    static const char *const word[] = {"module.", "_orig_mod.", "model."};
    for (size_t i = 0; i < safetensors_count(s->f); i++) {
        const char *name = safetensors_at(s->f, i)->name, *rest = name;
        for (int k = 0; k < 3; k++)
            if (strncmp(rest, word[k], strlen(word[k])) == 0) {
                rest += strlen(word[k]);
                k = -1; /* wrappers may be nested, in any order */
            }
        if (strcmp(rest, g->param[0].name) == 0 && (size_t)(rest - name) < sizeof s->prefix)
            memcpy(s->prefix, name, (size_t)(rest - name));
    }
}

static const struct safetensors_entry *find(const struct source *s, enum param_value v,
                                            const struct param *p)
{
    char name[NAME_MAX_LEN + sizeof s->prefix];
    snprintf(name, sizeof name, "%s%s", v == VALUE_MOMENTUM ? MOMENTUM_PREFIX : s->prefix, p->name);
    return safetensors_find(s->f, name);
}

/* Fails if parameter i has no tensor of its shape. The last layer's weight and bias may have any
 * number of classes, the same in both. */
static enum status check_value(const struct source *s, const struct graph *g, enum param_value v,
                               int i)
{
    const struct param *p = &g->param[i];
    const struct safetensors_entry *e = find(s, v, p),
                                   *bias = find(s, v, &g->param[g->n_params - 1]);
    bool last = v == VALUE_WEIGHT && i >= g->n_params - 2 && bias && bias->ndim == 1;
    bool fits = e && e->ndim == p->ndim;
    for (int k = 0; fits && k < p->ndim; k++)
        fits = e->dim[k] == (last && k == 0 ? bias->dim[0] : p->dim[k]);
    return fits ? STATUS_OK
                : status_fail(STATUS_DATA, "'%s' has no %s '%s' %s %s", s->path,
                              v == VALUE_MOMENTUM ? "momentum" : "tensor", p->name,
                              e ? "of the shape in" : "of", g->arch);
}

/* Fails if a value has no tensor that fits, or a tensor has no value. */
static enum status check_fit(const struct source *s, const struct graph *g)
{
    const char *first = NULL;
    size_t n = 0, prefix = strlen(s->prefix);
    for (int i = 0; i < g->n_params; i++) {
        TRY(check_value(s, g, VALUE_WEIGHT, i));
        if (s->momentum && param_is_trained(&g->param[i]))
            TRY(check_value(s, g, VALUE_MOMENTUM, i));
    }
    for (size_t i = safetensors_count(s->f); i-- > 0;) {
        const char *name = safetensors_at(s->f, i)->name, *end = strrchr(name, '.');
        bool known = is_momentum(name) || (end && strcmp(end, ".num_batches_tracked") == 0);
        for (int k = 0; k < g->n_params && !known; k++)
            known = strncmp(name, s->prefix, prefix) == 0 &&
                    strcmp(name + prefix, g->param[k].name) == 0;
        first = known ? first : name;
        n += !known;
    }
    return n == 0 ? STATUS_OK
                  : status_fail(STATUS_DATA,
                                "'%s' has tensors that are not part of %s: '%.99s' (1 of %zu)",
                                s->path, g->arch, first, n);
}

/* Completes the message of a file that does not fit `g`: names the network that it fits, if any. */
static enum status fail_misfit(const struct source *s, const struct graph *g)
{
    char what[STATUS_MESSAGE_MAX];
    const char *arch;
    snprintf(what, sizeof what, "%s", status_message());
    for (int i = 0; (arch = graph_arch_name(i)); i++) {
        struct graph *other;
        TRY(graph_build(arch, g->classes, 224, &other));
        bool fits = check_fit(s, other) == STATUS_OK;
        graph_free(other);
        if (fits)
            return status_fail(STATUS_USAGE, "%s; give -a %s", what, arch);
    }
    return status_fail(STATUS_DATA, "%s; check -a and the number of classes", what);
}

static enum status load_value(const struct source *s, struct network *net, const struct graph *g,
                              enum param_value v, int i)
{
    const struct safetensors_entry *e = find(s, v, &g->param[i]);
    const enum safetensors_dtype t = e->dtype;
    const size_t size = safetensors_dtype_size(t), n = (size_t)param_count(&g->param[i]);
    float *plain;
    if (t != SAFETENSORS_F32 && t != SAFETENSORS_F64 && t != SAFETENSORS_F16 &&
        t != SAFETENSORS_BF16)
        return status_fail(STATUS_DATA,
                           "'%s': tensor '%s' has the type %s; weights are F32, F64, F16 or BF16",
                           s->path, e->name, safetensors_dtype_str(t));
    TRY(array_new(&plain, n));
    for (size_t k = 0; k < n; k++) {
        union {
            float single;
            double real;
            uint16_t half;
        } x;
        memcpy(&x, (const char *)e->data + k * size, size); /* the data may be unaligned */
        plain[k] = t == SAFETENSORS_F32   ? x.single
                   : t == SAFETENSORS_F64 ? (float)x.real
                   : t == SAFETENSORS_F16 ? f16_to_float(x.half)
                                          : bf16_to_float(x.half);
    }
    enum status st = network_set(net, v, i, plain);
    free(plain);
    return st;
}

enum status state_dict_load(const char *path, const struct safetensors *f, struct network *net,
                            const struct graph *g, bool momentum, int64_t *classes)
{
    struct source s = {.f = f, .path = path, .momentum = momentum};
    const char *arch = safetensors_checked(f) ? safetensors_metadata(f, "arch") : NULL;
    if (arch && strcmp(arch, g->arch) != 0)
        return status_fail(STATUS_USAGE, "'%s' was trained with -a %s, not %s; give -a %s", path,
                           arch, g->arch, arch);
    find_prefix(&s, g);
    if (check_fit(&s, g) != STATUS_OK)
        return fail_misfit(&s, g);
    int64_t have = find(&s, VALUE_WEIGHT, &g->param[g->n_params - 1])->dim[0];
    if (have != g->classes && !classes)
        return status_fail(STATUS_DATA,
                           "'%s' has %" PRId64 " classes, not %d; check the number of classes",
                           path, have, g->classes);
    for (int i = 0; i < g->n_params; i++) {
        if (have == g->classes || i < g->n_params - 2)
            TRY(load_value(&s, net, g, VALUE_WEIGHT, i));
        if (momentum && param_is_trained(&g->param[i]))
            TRY(load_value(&s, net, g, VALUE_MOMENTUM, i));
    }
    if (classes)
        *classes = have;
    return STATUS_OK;
}

enum status weights_load(const char *path, struct network *net, const struct graph *g,
                         int64_t *classes)
{
    struct safetensors *f;
    TRY(safetensors_open(path, &f));
    enum status st = state_dict_load(path, f, net, g, false, classes);
    safetensors_close(f);
    return st;
}

enum status checkpoint_export_weights(const char *from, const char *to,
                                      enum status (*proceed)(void))
{
    enum status st;
    struct safetensors *f;
    struct safetensors_entry *entry = NULL;
    struct atomic_file out = {NULL};
    struct safetensors_pair pair[] = {{"format", "pt"}, {"arch", NULL}};
    size_t n = 0;
    char target[4096];
    bool direct, same;
    TRY(output_find(to, target, &direct));
    TRY(path_same(from, to, &same));
    if (direct || same)
        return status_fail(STATUS_USAGE, "'%s' is %s; name another file", to,
                           direct ? "no regular file" : "the checkpoint itself");
    TRY(safetensors_open(from, &f));
    pair[1].value = safetensors_metadata(f, "arch");
    if (!pair[1].value)
        CHECK(status_fail(STATUS_DATA, "'%s' is not a checkpoint: it does not name its network",
                          from));
    CHECK(array_new(&entry, safetensors_count(f)));
    for (size_t i = 0; i < safetensors_count(f); i++)
        if (!is_momentum(safetensors_at(f, i)->name))
            entry[n++] = *safetensors_at(f, i);
    const struct safetensors_contents contents = {
        .entry = entry, .n_entries = n, .pair = pair, .n_pairs = sizeof pair / sizeof *pair};
    CHECK(safetensors_prepare(target, &contents, &out));
    st = atomic_file_end(&out, proceed ? proceed() : STATUS_OK);
done:
    free(entry);
    safetensors_close(f);
    return st;
}
