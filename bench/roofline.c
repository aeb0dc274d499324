/* Computes the bounds of operations; writes and reads peaks as JSON. */
#include "bench/roofline.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

enum { PEAK_FILE_MAX = 1 << 20 };

double roofline_bytes(const struct op_desc *d)
{
    struct op_roles roles = op_roles(d->kind);
    double sum = 0;
    if (d->kind == OP_ADD_STRIDED) /* only as many pixels of Y are accessed as X has */
        return 3 * (double)d->t[ROLE_X].bytes;
    if (d->kind == OP_SGD) /* the update reads the half-precision copy only in a skipped step */
        roles.reads &= ~ROLE_SET(WCOPY);
    for (int r = 0; r < ROLE_COUNT; r++) {
        unsigned times = (roles.reads >> r & 1) + (roles.writes >> r & 1);
        bool flat = op_in(d->kind, OPS_SGD) && (r == ROLE_DW || r == ROLE_DW_HALF);
        if (d->t[r].ndim)
            sum +=
                (double)times * (flat ? op_gradient_bytes(d, (enum role)r) : (double)d->t[r].bytes);
    }
    return sum;
}

/* Number of pairs of an output and a kernel's element, along one axis, that multiply a pixel. */
static double taps_inside(int64_t in, int64_t out, int64_t kernel, int stride, int pad)
{
    double n = 0;
    for (int64_t o = 0; o < out; o++)
        for (int64_t at = o * stride - pad, end = at + kernel; at < end; at++)
            n += at >= 0 && at < in;
    return n;
}

double roofline_flops(const struct op_desc *d)
{
    const struct tensor_desc *x = &d->t[d->t[ROLE_X].ndim ? ROLE_X : ROLE_DX];
    const struct tensor_desc *y = &d->t[d->t[ROLE_Y].ndim ? ROLE_Y : ROLE_DY];
    const struct tensor_desc *w = &d->t[d->t[ROLE_W].ndim ? ROLE_W : ROLE_DW];
    const struct conv_attr *a = &d->attr.conv;
    double flops = op_flops(d);
    for (int i = 0; i < 2 && op_in(d->kind, OPS_CONV | OPS_CONV_FUSED); i++)
        flops *= taps_inside(x->dim[2 + i], y->dim[2 + i], w->dim[2 + i], a->stride[i], a->pad[i]) /
                 (double)(y->dim[2 + i] * w->dim[2 + i]);
    return flops;
}

enum dtype roofline_type(const struct peaks *p, const struct op_desc *d)
{
    static const enum role operands[] = {ROLE_X, ROLE_DY, ROLE_W};
    enum dtype type = DTYPE_F32;
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        const struct tensor_desc *t = &d->t[operands[i]];
        if (t->ndim == 0)
            continue;
        if (t->type == DTYPE_F16 || t->type == DTYPE_BF16)
            return t->type;
        if (t->rounds == DTYPE_TF32 && p->flops_per_s[DTYPE_TF32] > 0)
            type = DTYPE_TF32;
    }
    return type;
}

double roofline_bandwidth(const struct peaks *p, double bytes)
{
    double best = 0, at_largest = 0, largest = 0;
    for (int i = 0; i < p->n_copies; i++) {
        const struct peak_copy *c = &p->copy[i];
        if (c->bytes >= bytes)
            best = fmax(best, c->bytes_per_s);
        if (c->bytes > largest) {
            largest = c->bytes;
            at_largest = c->bytes_per_s;
        }
    }
    return best > 0 ? best : at_largest;
}

double roofline_highest(const struct peaks *p, double bytes)
{
    double below = 0;
    for (int i = 0; i < p->n_copies; i++)
        if (p->copy[i].bytes <= bytes)
            below = fmax(below, p->copy[i].bytes);
    return below > 0 ? roofline_bandwidth(p, below) : INFINITY;
}

struct bound roofline_bound(const struct peaks *p, const struct op_desc *d, double flops)
{
    double bytes = roofline_bytes(d);
    double bandwidth = roofline_bandwidth(p, bytes);
    double rate = p->flops_per_s[roofline_type(p, d)];
    struct bound b = {
        .memory_s = bandwidth > 0 ? bytes / bandwidth : NAN,
        .compute_s = flops == 0 ? 0
                     : rate > 0 ? flops / rate
                                : NAN,
    };
    b.compute = b.compute_s > b.memory_s;
    b.seconds = isnan(b.memory_s) || isnan(b.compute_s) ? NAN : fmax(b.memory_s, b.compute_s);
    return b;
}

static json_t *noise_or_null(const struct host_noise *n)
{
    return isnan(n->seconds) ? NULL : host_noise_json(n);
}

json_t *peaks_json(const struct peaks *p)
{
    json_t *copies = json_array(), *flops = json_array();
    for (int i = 0; i < p->n_copies; i++)
        json_add(copies,
                 json_new("{s:f, s:f, s:o*}", "bytes", p->copy[i].bytes, "bytes_per_s",
                          p->copy[i].bytes_per_s, "noise", noise_or_null(&p->copy[i].noise)));
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (p->flops_per_s[t] > 0)
            json_add(flops,
                     json_new("{s:s, s:f, s:o*}", "type", dtype_str((enum dtype)t), "flops_per_s",
                              p->flops_per_s[t], "noise", noise_or_null(&p->noise[t])));
    return json_new("{s:i, s:s, s:s, s:o, s:o}", "schema", PEAK_SCHEMA, "bench", "peak", "device",
                    p->device, "copy", copies, "flops", flops);
}

/* Reads a number above 0. */
static enum status read_rate(const json_t *o, const char *key, double *out)
{
    *out = json_number_at(o, key);
    if (!(*out > 0) || !isfinite(*out))
        return status_fail(STATUS_DATA, "'%s' is not a number above 0", key);
    return STATUS_OK;
}

static enum status read_copies(const json_t *list, struct peaks *p)
{
    size_t n = json_array_size(list);
    if (n == 0 || n > PEAK_COPIES_MAX)
        return status_fail(STATUS_DATA, "'copy' is not a list of 1 to %d measurements",
                           PEAK_COPIES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        TRY(read_rate(o, "bytes", &p->copy[i].bytes));
        TRY(read_rate(o, "bytes_per_s", &p->copy[i].bytes_per_s));
        p->copy[i].noise = host_noise_read(o);
    }
    p->n_copies = (int)n;
    return STATUS_OK;
}

static enum status read_flops(const json_t *list, struct peaks *p)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        const char *type = json_text_at(o, "type");
        for (int t = 0; t < DTYPE_COUNT; t++)
            if (strcmp(type, dtype_str((enum dtype)t)) == 0) {
                TRY(read_rate(o, "flops_per_s", &p->flops_per_s[t]));
                p->noise[t] = host_noise_read(o);
            }
    }
    return STATUS_OK;
}

static enum status read_peaks(const json_t *o, struct peaks *p)
{
    if (strcmp(json_text_at(o, "bench"), "peak") != 0)
        return status_fail(STATUS_DATA,
                           "the file is not the output of 'ampscale bench peak --json'");
    if (json_number_at(o, "schema") != PEAK_SCHEMA)
        return status_fail(STATUS_DATA, "its schema is not %d", PEAK_SCHEMA);
    text_clean(p->device, sizeof p->device, json_text_at(o, "device"));
    TRY(read_copies(json_object_get(o, "copy"), p));
    return read_flops(json_object_get(o, "flops"), p);
}

enum status peaks_read(const char *path, struct peaks *p)
{
    json_t *o;
    *p = (struct peaks){0};
    TRY(json_read(path, PEAK_FILE_MAX, &o));
    enum status st = read_peaks(o, p);
    json_decref(o);
    return st == STATUS_OK ? st : status_context(st, "cannot take peaks from '%s'", path);
}
