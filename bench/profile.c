/* Profiles a step: runs a process under ncu, assigns the kernels that ncu lists to the operations
 * that the process lists, and prints both. */
#include "bench/profile.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/profile_ncu.h"
#include "bench/record.h"
#include "bench/train_child.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, STEP_MAX = 64 << 20 };

/* Sums over kernels; fractions are averages weighted by time. A value that ncu did not report is
 * NaN. */
struct profile_sum {
    int n;
    double seconds, bytes;
    double tensor, dram; /* use of the tensor core pipe and of DRAM as a fraction of the peak, 0 to
                          * 1 */
};

/* An operation of the step, as the profiled process lists it. profile.step owns the strings. */
struct profile_op {
    const char *layer, *phase, *op, *impl, *bound;
    double bytes, flops, bound_s; /* bound_s is NaN if it is unknown */
    struct profile_sum sum;
};

/* All kernels that have the same name in the same phase. */
struct profile_row {
    const char *name, *phase;
    int registers; /* registers per thread; -1: unknown */
    struct profile_sum sum;
};

struct profile {
    const struct bench_options *options;
    json_t *step; /* the record that the profiled process printed */
    char tool[64];
    struct ncu_kernel *kernel;
    int n_kernels;
    struct profile_op *op;
    int n_ops;
    struct profile_row *row; /* (n_rows) by time, the longest first */
    int n_rows;
    struct profile_sum all;
    bool attributed; /* whether the marks match the operations; otherwise the sums of operations and
                      * the phases of rows are missing */
};

/* --- sums by operation and by kernel name --- */

static double average(double a, double a_weight, double b, double b_weight)
{
    if (a_weight == 0)
        return b;
    return b_weight == 0 ? a : (a * a_weight + b * b_weight) / (a_weight + b_weight);
}

static void profile_add(struct profile_sum *s, const struct profile_sum *more)
{
    s->tensor = average(s->tensor, s->seconds, more->tensor, more->seconds);
    s->dram = average(s->dram, s->seconds, more->dram, more->seconds);
    s->n += more->n;
    s->seconds += more->seconds;
    s->bytes += more->bytes;
}

static bool is_mark(const struct ncu_kernel *k)
{
    return strcmp(k->name, PROFILE_MARK_KERNEL) == 0;
}

static enum status take_ops(struct profile *p)
{
    const json_t *steps = json_object_get(p->step, "steps"), *o;
    size_t i;
    if (json_array_size(steps) == 0)
        return status_fail(STATUS_DATA, "the profiled process lists no operation");
    TRY(array_new(&p->op, json_array_size(steps)));
    json_array_foreach(steps, i, o)
    {
        p->op[p->n_ops++] = (struct profile_op){.layer = json_text_or(o, "layer", "-"),
                                                .phase = json_text_or(o, "phase", "-"),
                                                .op = json_text_or(o, "op", "-"),
                                                .impl = json_text_or(o, "impl", "-"),
                                                .bound = json_text_or(o, "bound", "-"),
                                                .bytes = json_number_at(o, "bytes"),
                                                .flops = json_number_at(o, "flops"),
                                                .bound_s = json_number_at(o, "bound_s")};
    }
    return STATUS_OK;
}

/* Adds a kernel to the row of its name and phase. */
static void add_row(struct profile *p, const struct ncu_kernel *k, const char *phase,
                    const struct profile_sum *sum)
{
    int i = 0;
    while (i < p->n_rows &&
           (strcmp(p->row[i].name, k->name) != 0 || strcmp(p->row[i].phase, phase) != 0))
        i++;
    if (i == p->n_rows)
        p->row[p->n_rows++] = (struct profile_row){k->name, phase, k->registers, {0}};
    if (k->registers > p->row[i].registers)
        p->row[i].registers = k->registers;
    profile_add(&p->row[i].sum, sum);
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct profile_row *)a)->sum.seconds;
    double y = ((const struct profile_row *)b)->sum.seconds;
    return (x < y) - (x > y);
}

static enum status profile_assign(struct profile *p)
{
    int marks = 0, op = -1;
    TRY(take_ops(p));
    for (int i = 0; i < p->n_kernels; i++)
        marks += is_mark(&p->kernel[i]);
    p->attributed = marks == p->n_ops && is_mark(&p->kernel[0]);
    TRY(array_new(&p->row, p->n_kernels));
    for (int i = 0; i < p->n_kernels; i++) {
        const struct ncu_kernel *k = &p->kernel[i];
        struct profile_sum sum = {1, k->seconds, k->bytes, k->tensor, k->dram};
        op += is_mark(k);
        if (is_mark(k))
            continue;
        profile_add(&p->all, &sum);
        if (p->attributed)
            profile_add(&p->op[op].sum, &sum);
        add_row(p, k, p->attributed ? p->op[op].phase : "-", &sum);
    }
    qsort(p->row, (size_t)p->n_rows, sizeof *p->row, by_time);
    return STATUS_OK;
}

/* --- columns --- */

static void profile_sum_columns(struct bench_table *t, const char *count,
                                const struct profile_sum *s)
{
    const struct profile *p = t->context;
    column_int(t, count, "n", 5, s->n);
    column_real(t, "time_us", "us", 10, 1, 1, s->seconds * 1e6);
    column_real(t, NULL, "part %", 6, 1, 100, s->seconds / p->all.seconds);
    column_real(t, "dram_bytes", "MiB", 10, 2, 0x1p-20, s->bytes);
    column_real(t, NULL, "GB/s", 8, 1, 1e-9, s->bytes / s->seconds);
    column_real(t, "tensor_share", "tensor", 6, 2, 1, s->tensor);
    column_real(t, "dram_share", "dram", 6, 2, 1, s->dram);
}

static void profile_kernel_columns(struct bench_table *t, const void *row)
{
    const struct profile_row *r = row;
    char cut[60];
    snprintf(cut, sizeof cut, "%s", r->name);
    column_text(t, "name", NULL, 0, r->name);
    column_text(t, NULL, "kernel", -59, cut);
    profile_sum_columns(t, "count", &r->sum);
    column_text(t, "phase", "phase", -8, r->phase);
    t->absent = r->registers < 0;
    column_int(t, "registers", "regs", 4, r->registers);
}

static void profile_total_columns(struct bench_table *t, const void *row)
{
    const struct profile_op *o = row;
    profile_sum_columns(t, o->layer ? "kernels" : "count", &o->sum);
    column_real(t, "bytes", "least MiB", 10, 2, 0x1p-20, o->bytes);
    column_real(t, "flops", "GFLOP", 9, 2, 1e-9, o->flops);
    column_real(t, "bound_us", "bound us", 10, 1, 1, o->bound_s * 1e6);
}

static void profile_op_columns(struct bench_table *t, const void *row)
{
    const struct profile_op *o = row;
    char name[33];
    snprintf(name, sizeof name, "%s, %s", o->op, o->phase);
    column_text(t, NULL, "operation", -32, name);
    column_text(t, "layer", NULL, 0, o->layer);
    column_text(t, "phase", NULL, 0, o->phase);
    column_text(t, "op", NULL, 0, o->op);
    column_text(t, "impl", NULL, 0, o->impl);
    column_text(t, "bound", NULL, 0, o->bound);
    profile_total_columns(t, o);
    column_real(t, NULL, "share", 6, 2, 1, o->sum.n ? o->bound_s / o->sum.seconds : NAN);
}

static struct bench_table profile_table(const struct profile *p, enum bench_format format,
                                        void (*columns)(struct bench_table *t, const void *row))
{
    return (struct bench_table){
        .format = format, .out = p->options->out, .columns = columns, .context = p};
}

/* --- tables --- */

static bool is_alike(const struct profile_op *a, const struct profile_op *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->phase, b->phase) == 0;
}

static void add_op(struct profile_op *sum, const struct profile_op *o)
{
    if (o->sum.n)
        profile_add(&sum->sum, &o->sum);
    sum->bytes += o->bytes;
    sum->flops += o->flops;
    sum->bound_s += o->bound_s;
}

/* Prints a row for each kind of operation in each phase: sums over these operations, with their
 * bytes and FLOPs. */
static void print_kinds(const struct profile *p)
{
    struct bench_table t = profile_table(p, BENCH_TEXT, profile_op_columns);
    bench_table_open(&t, p->op);
    for (int i = 0; i < p->n_ops; i++) {
        struct profile_op sum = {.op = p->op[i].op, .phase = p->op[i].phase, .layer = ""};
        int first = 0;
        while (!is_alike(&p->op[first], &p->op[i]))
            first++;
        if (first < i)
            continue;
        for (int k = i; k < p->n_ops; k++)
            if (is_alike(&p->op[k], &sum))
                add_op(&sum, &p->op[k]);
        bench_table_row(&t, &sum);
    }
}

static void profile_print(const struct profile *p)
{
    const struct bench_options *o = p->options;
    const struct profile_row all = {"all", "", -1, p->all};
    struct bench_table t = profile_table(p, BENCH_TEXT, profile_kernel_columns);
    fprintf(o->out, "%s, %d px, batch %d, %s, on %s; %s\n\n", o->net, o->image_size, o->batch,
            bench_precision(o), json_text_or(p->step, "device", "?"), p->tool);
    bench_table_rows(&t, p->row, p->n_rows, sizeof *p->row);
    bench_table_row(&t, &all);
    fputc('\n', o->out);
    if (p->attributed)
        print_kinds(p);
    else
        fprintf(o->out, "The kernels are not assigned to operations, because the marks that ncu "
                        "lists do not match the step's operations.\n");
}

/* --- the record --- */

static enum status profile_json(const struct profile *p, json_t **record)
{
    const struct bench_options *o = p->options;
    const struct bench_head head = {"profile", 1, json_text_or(p->step, "device", "?"), o->threads};
    struct bench_table kernels = profile_table(p, BENCH_JSON, profile_kernel_columns);
    struct bench_table ops = profile_table(p, BENCH_JSON, profile_op_columns);
    struct bench_table totals = profile_table(p, BENCH_JSON, profile_total_columns);
    struct profile_op all = {.sum = p->all};
    json_t *rows[3] = {NULL};
    enum status st;
    for (int i = 0; i < p->n_ops; i++) {
        all.bytes += p->op[i].bytes;
        all.flops += p->op[i].flops;
        all.bound_s += p->op[i].bound_s;
    }
    bench_table_rows(&kernels, p->row, p->n_rows, sizeof *p->row);
    bench_table_rows(&ops, p->op, p->attributed ? p->n_ops : 0, sizeof *p->op);
    bench_table_rows(&totals, &all, 1, sizeof all);
    CHECK(bench_table_take(&kernels, &rows[0]));
    CHECK(bench_table_take(&ops, &rows[1]));
    CHECK(bench_table_take(&totals, &rows[2]));
    st = bench_record(&head,
                      json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:O, s:O, s:O, s:O?}", "net",
                                o->net, "batch", o->batch, "image_size", o->image_size, "precision",
                                bench_precision(o), "fuse", fuse_str(o->fuse), "tool", p->tool,
                                "attributed", p->attributed, "kernels", rows[0], "operations",
                                rows[1], "totals", json_array_get(rows[2], 0), "peaks",
                                json_object_get(p->step, "peaks")),
                      record);
done:
    for (int i = 0; i < 3; i++)
        json_decref(rows[i]);
    bench_table_close(&kernels);
    bench_table_close(&ops);
    bench_table_close(&totals);
    return st;
}

/* --- the profiled process --- */

static enum status step_command(const struct bench_options *n, struct words *w)
{
    char program[PATH_MAX];
    TRY(process_own_file(program, sizeof program));
    TRY(words_add_all(w, program, "bench", "step", "--profile-one-step", NULL));
    TRY(words_add(w, "--devices=%s", n->devices));
    TRY(words_add(w, "--net=%s", n->net));
    TRY(words_add(w, "--batch-size=%d", n->batch));
    TRY(words_add(w, "--image-size=%d", n->image_size));
    TRY(words_add(w, "--precision=%s", bench_precision(n)));
    TRY(words_add(w, "--fuse=%s", fuse_str(n->fuse)));
    TRY(words_add(w, "--rounds=%d", n->rounds));
    if (n->threads)
        TRY(words_add(w, "--threads=%d", n->threads));
    if (n->peak)
        TRY(words_add(w, "--peak=%s", n->peak));
    return n->emulate ? words_add(w, "--emulate") : STATUS_OK;
}

/* Reads the JSON object that the profiled process printed. Skips the lines before it, which ncu may
 * have printed. */
static enum status read_step(const char *dir, json_t **step)
{
    char path[PATH_SIZE], *text = NULL;
    size_t size;
    json_error_t error;
    TRY(path_format(path, sizeof path, "%s/step.json", dir));
    TRY(file_read(path, STEP_MAX, &text, &size));
    const char *begin = strstr(text, "{\n");
    *step = json_loads(begin ? begin : "", JSON_DISABLE_EOF_CHECK, &error);
    free(text);
    if (!*step)
        return status_fail(STATUS_DATA, "cannot read the step's operations: '%s': %s", path,
                           error.text);
    return STATUS_OK;
}

static enum status print_profile(const struct profile *p)
{
    const struct bench_options *o = p->options;
    json_t *record;
    enum status st = STATUS_OK;
    TRY(profile_json(p, &record));
    if (o->format == BENCH_TEXT)
        profile_print(p);
    else
        CHECK(json_print(json_incref(record), o->out, JSON_RECORD));
    if (o->dir)
        CHECK(json_write(json_incref(record), JSON_RECORD, "%s/profile.json", o->dir));
done:
    json_decref(record);
    return st;
}

static enum status profile_in(struct profile *p, const char *dir, const char *ncu)
{
    const struct bench_options *o = p->options;
    struct time_budget budget = time_budget_begin(o->budget_s);
    struct process_signals signals;
    struct words command = {0};
    enum status st;
    TRY(process_signals_open(&signals));
    struct ncu_config run = {.ncu = ncu, .command = &command, .dir = dir, .signals = &signals};
    CHECK(step_command(o, &command));
    CHECK(ncu_version(&run, p->tool, sizeof p->tool));
    if (o->budget_s > 0)
        run.limit_s = (int64_t)fmax(1, time_budget_left(&budget));
    CHECK(ncu_run(&run, &p->kernel, &p->n_kernels));
    CHECK(read_step(dir, &p->step));
    CHECK(profile_assign(p));
    CHECK(print_profile(p));
done:
    words_free(&command);
    process_signals_close(&signals);
    return st;
}

enum status bench_profile(const struct bench_options *o)
{
    char ncu[PATH_SIZE];
    struct temporary_dir scratch = {{0}};
    struct profile p = {.options = o};
    enum status st;
    if (strncmp(o->devices, "cuda", 4) != 0)
        return status_fail(STATUS_DATA,
                           "cannot profile '%s': only GPUs can be profiled; give --devices cuda:0",
                           o->devices);
    CHECK(ncu_find(ncu, sizeof ncu));
    CHECK(o->dir ? dir_make(o->dir) : temporary_dir_make(&scratch, "/var/tmp", "ampscale-profile"));
    CHECK(profile_in(&p, o->dir ? o->dir : scratch.path, ncu));
done:
    if (temporary_dir_remove(&scratch) != STATUS_OK)
        fprintf(stderr, "ampscale: %s\n", status_message());
    json_decref(p.step);
    free(p.kernel);
    free(p.op);
    free(p.row);
    return st;
}
