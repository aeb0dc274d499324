/* A profile as tables and as a record. */
#include "bench/micro.h"
#include "bench/profile.h"

#include <math.h>
#include <string.h>

/* --- tables --- */

/* "1.25", or "n/a". */
struct cell {
    char text[24];
};

static struct cell cell_of(double v, int digits)
{
    struct cell c;
    if (isnan(v))
        snprintf(c.text, sizeof c.text, "n/a");
    else
        snprintf(c.text, sizeof c.text, "%.*f", digits, v);
    return c;
}

static void print_sum(FILE *out, const struct profile_sum *s, double all)
{
    fprintf(out, " %5d %10s %5s%% %10s %8s %6s %6s", s->n, cell_of(s->seconds * 1e6, 1).text,
            cell_of(100 * s->seconds / all, 1).text, cell_of(s->bytes / 1048576, 2).text,
            cell_of(s->bytes / s->seconds * 1e-9, 1).text, cell_of(s->tensor, 2).text,
            cell_of(s->dram, 2).text);
}

static void print_head(FILE *out, const char *what, int width)
{
    fprintf(out, "\n%-*s %5s %10s %6s %10s %8s %6s %6s", width, what, "n", "us", "part", "MiB",
            "GB/s", "tensor", "dram");
}

static void print_rows(const struct profile *p, FILE *out)
{
    print_head(out, "kernel", 59);
    fprintf(out, "  %-8s %4s\n", "phase", "regs");
    for (int i = 0; i < p->n_rows; i++) {
        const struct profile_row *r = &p->row[i];
        fprintf(out, "%-59.59s", r->name);
        print_sum(out, &r->sum, p->all.seconds);
        fprintf(out, "  %-8s %4s\n", r->phase,
                cell_of(r->registers < 0 ? NAN : r->registers, 0).text);
    }
    fprintf(out, "%-59s", "all");
    print_sum(out, &p->all, p->all.seconds);
    fputc('\n', out);
}

/* The operations of one kind in one phase, beside their arithmetic. */
static void print_kind(const struct profile *p, int first, FILE *out)
{
    const struct profile_op *k = &p->op[first];
    struct profile_sum sum = {0};
    double bytes = 0, flops = 0, bound_s = 0;
    char name[64];
    for (int i = first; i < p->n_ops; i++) {
        const struct profile_op *o = &p->op[i];
        if (strcmp(o->op, k->op) != 0 || strcmp(o->phase, k->phase) != 0)
            continue;
        if (o->sum.n)
            profile_add(&sum, &o->sum);
        bytes += o->bytes;
        flops += o->flops;
        bound_s += o->bound_s;
    }
    snprintf(name, sizeof name, "%s, %s", k->op, k->phase);
    fprintf(out, "%-32.32s", name);
    print_sum(out, &sum, p->all.seconds);
    fprintf(out, " %10s %9s %10s %6s\n", cell_of(bytes / 1048576, 2).text,
            cell_of(flops * 1e-9, 2).text, cell_of(bound_s * 1e6, 1).text,
            cell_of(sum.n ? bound_s / sum.seconds : NAN, 2).text);
}

static void print_kinds(const struct profile *p, FILE *out)
{
    print_head(out, "operation", 32);
    fprintf(out, " %10s %9s %10s %6s\n", "least MiB", "GFLOP", "bound us", "share");
    for (int i = 0; i < p->n_ops; i++) {
        int first = 0;
        while (strcmp(p->op[first].op, p->op[i].op) != 0 ||
               strcmp(p->op[first].phase, p->op[i].phase) != 0)
            first++;
        if (first == i)
            print_kind(p, i, out);
    }
}

void profile_print(const struct profile *p, FILE *out)
{
    const struct bench_net_config *c = &p->config->net;
    const char *device = json_string_value(json_object_get(p->step, "device"));
    fprintf(out, "%s, %d px, batch %d, %s, on %s; %s\n", c->net, c->image_size, c->batch,
            c->precision ? c->precision : "fp32", device ? device : "?", p->tool);
    print_rows(p, out);
    if (p->attributed)
        print_kinds(p, out);
    else
        fprintf(out, "\nThe kernels are not assigned to operations: ncu lists other marks than the "
                     "step has operations.\n");
}

/* --- the record --- */

static void set_number(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, isfinite(v) ? json_real(v) : json_null());
}

static void set_sum(json_t *o, const char *count, const struct profile_sum *s)
{
    json_object_set_new(o, count, json_integer(s->n));
    set_number(o, "time_us", s->seconds * 1e6);
    set_number(o, "dram_bytes", s->bytes);
    set_number(o, "tensor_share", s->tensor);
    set_number(o, "dram_share", s->dram);
}

static json_t *rows_json(const struct profile *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->n_rows; i++) {
        const struct profile_row *r = &p->row[i];
        json_t *o = json_pack("{s:s, s:s}", "name", r->name, "phase", r->phase);
        set_sum(o, "count", &r->sum);
        if (r->registers >= 0)
            json_object_set_new(o, "registers", json_integer(r->registers));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *ops_json(const struct profile *p)
{
    json_t *list = json_array();
    for (int i = 0; p->attributed && i < p->n_ops; i++) {
        const struct profile_op *op = &p->op[i];
        json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "layer", op->layer, "phase", op->phase,
                              "op", op->op, "impl", op->impl, "bound", op->bound);
        set_sum(o, "kernels", &op->sum);
        set_number(o, "bytes", op->bytes);
        set_number(o, "flops", op->flops);
        set_number(o, "bound_us", op->bound_s * 1e6);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *totals_json(const struct profile *p)
{
    json_t *o = json_object();
    double bytes = 0, flops = 0, bound_s = 0;
    for (int i = 0; i < p->n_ops; i++) {
        bytes += p->op[i].bytes;
        flops += p->op[i].flops;
        bound_s += p->op[i].bound_s;
    }
    set_sum(o, "count", &p->all);
    set_number(o, "bytes", bytes);
    set_number(o, "flops", flops);
    set_number(o, "bound_us", bound_s * 1e6);
    return o;
}

enum status profile_json(const struct profile *p, json_t **record)
{
    const struct bench_net_config *c = &p->config->net;
    const char *device = json_string_value(json_object_get(p->step, "device"));
    TRY(bench_record("profile", 1, device ? device : "?", c->threads, record));
    json_t *rest = json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:o, s:o, s:o}", "net", c->net,
                             "batch", c->batch, "image_size", c->image_size, "precision",
                             c->precision ? c->precision : "fp32", "fuse", fuse_str(c->fuse),
                             "tool", p->tool, "attributed", p->attributed, "kernels", rows_json(p),
                             "operations", ops_json(p), "totals", totals_json(p));
    if (!rest || json_object_update(*record, rest) != 0) {
        json_decref(rest);
        json_decref(*record);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_decref(rest);
    json_object_set(*record, "peaks", json_object_get(p->step, "peaks"));
    return STATUS_OK;
}
