/* Reports the bandwidth of copies from each device to each other device. */
#include "bench/memory.h"

#include "base/array.h"
#include "bench/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

double memory_pair_rate(const struct memory_peers *p, int from, int to)
{
    const struct memory_pair *w = &p->pair[from][to];
    return w->measured && w->time.median > 0 ? (double)p->bytes * 1e-9 / w->time.median : 0;
}

/* --- printing --- */

static void memory_print_matrix(const struct memory_peers *p, struct bench_table *t)
{
    FILE *out = t->out;
    char remarks[BENCH_REMARKS_MAX];
    int64_t wrong = 0;
    bool staged = false;
    fprintf(out,
            "%s ... (%d devices)\ncopies of %zu MiB from the device of a row to the device of a "
            "column, median GB/s\n\n%8s",
            p->device, p->n, p->bytes >> 20, "");
    for (int to = 0; to < p->n; to++)
        fprintf(out, " %9d ", p->index[to]);
    for (int from = 0; from < p->n; from++) {
        fprintf(out, "\n%8d", p->index[from]);
        for (int to = 0; to < p->n; to++) {
            const struct memory_pair *w = &p->pair[from][to];
            if (w->measured)
                bench_table_remarks(t, &w->time.noise, NAN, remarks);
            if (w->measured)
                fprintf(out, " %9.2f%c", memory_pair_rate(p, from, to),
                        " *!"[*remarks ? 2 : !w->direct]);
            else
                fprintf(out, " %9s ", "n/a");
            staged = staged || (w->measured && !w->direct);
            wrong += w->wrong;
        }
    }
    fprintf(out, "\n\n%s%s#wrong bytes: %" PRId64 "\n",
            t->disturbed ? "! disturbed by other work\n" : "",
            staged
                ? "* through host memory: the first device cannot access the memory of the other\n"
                : "",
            wrong);
}

/* A pair of devices as a row of the table. */
struct pair_row {
    int from, to;
};

static void memory_pair_columns(struct bench_table *t, const void *row)
{
    const struct pair_row *r = row;
    const struct memory_peers *p = t->context;
    const struct memory_pair *w = &p->pair[r->from][r->to];
    column_int(t, "from", NULL, 0, p->index[r->from]);
    column_int(t, "to", NULL, 0, p->index[r->to]);
    if (t->format == BENCH_CSV)
        column_int(t, "bytes", NULL, 0, (int64_t)p->bytes);
    column_bool(t, "direct", w->direct);
    harness_columns(t, "n", &w->time);
    column_real(t, "median_gb_per_s", NULL, 0, 0, 1, memory_pair_rate(p, r->from, r->to));
    column_int(t, "wrong", NULL, 0, w->wrong);
    column_noise(t, &w->time.noise, NAN);
}

static enum status memory_print_peers(const struct bench_options *o, const struct memory_peers *p)
{
    const struct bench_head head = {"memory_peers", MEMORY_PEERS_SCHEMA, p->device, -1};
    struct bench_table t = bench_table_of(o, memory_pair_columns, p);
    if (o->format == BENCH_TEXT || o->format == BENCH_MARKDOWN) {
        memory_print_matrix(p, &t);
        bench_warn(&head, &t);
        return STATUS_OK;
    }
    bench_table_open(&t, &(struct pair_row){0, 0});
    for (int from = 0; from < p->n; from++)
        for (int to = 0; to < p->n; to++)
            if (p->pair[from][to].measured)
                bench_table_row(&t, &(struct pair_row){from, to});
    return bench_record_rows(
        &head, json_pack("{s:i, s:I}", "devices", p->n, "bytes", (json_int_t)p->bytes), "pairs",
        &t);
}

/* --- the benchmark --- */

static enum status open_and_measure(const struct bench_options *o, const struct device_list *list,
                                    struct memory_peers *p)
{
    struct device *dev[DEVICES_MAX] = {NULL};
    enum status st = STATUS_OK;
    for (int i = 0; i < list->n; i++)
        CHECK(list->backend->open(list->backend, list->index[i], 1, &dev[i]));
    list->backend->describe(dev[0], p->device, sizeof p->device);
    CHECK(memory_measure_peers(&o->timing, dev, p));
done:
    for (int i = 0; i < list->n; i++)
        device_close(dev[i]);
    return st;
}

static enum status check_pairs(const struct memory_peers *p)
{
    int64_t wrong = 0;
    for (int from = 0; from < p->n; from++)
        for (int to = 0; to < p->n; to++)
            wrong += p->pair[from][to].wrong;
    return harness_wrong(wrong, "bytes arrived wrong on another device");
}

enum status bench_memory_peers(const struct bench_options *o)
{
    struct device_list list;
    struct memory_peers *p;
    enum status st;
    TRY(device_list_parse(o->devices, &list));
    TRY(array_new(&p, 1));
    p->n = list.n;
    p->bytes = (size_t)(o->max_mib ? o->max_mib : MEMORY_MIB_DEVICE) << 20;
    CHECK(open_and_measure(o, &list, p));
    CHECK(memory_print_peers(o, p));
    CHECK(check_pairs(p));
done:
    free(p);
    return st;
}
