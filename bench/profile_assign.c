/* Finds the operation that launched each kernel. Sums the kernels' measurements by operation and by
 * kernel name. */
#include "bench/profile.h"

#include "base/array.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static double average(double a, double a_weight, double b, double b_weight)
{
    if (a_weight == 0)
        return b;
    return b_weight == 0 ? a : (a * a_weight + b * b_weight) / (a_weight + b_weight);
}

void profile_add(struct profile_sum *s, const struct profile_sum *more)
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

enum status profile_assign(struct profile *p)
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
