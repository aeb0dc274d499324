/* Measures and prints memory bandwidth; chooses the sizes of the host's arrays. */
#include "bench/memory.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CACHE_LEVEL_MAX = 3,
    CPUS_MAX = 8192,
    DEVICE_MIB = 256,     /* default size of an array of a device */
    ARRAY_MIB_LEAST = 64, /* minimum of the default size of the host's arrays; it applies if the
                           * caches are small */
};

double memory_best(const struct memory_row *row)
{
    return row->time.min > 0 ? row->bytes * 1e-9 / row->time.min : 0;
}

double memory_median(const struct memory_row *row)
{
    return row->time.median > 0 ? row->bytes * 1e-9 / row->time.median : 0;
}

/* --- caches --- */

/* Reads the number at the beginning of a file, and the character after the number. Returns false if
 * there is no number. */
static bool read_number(const char *path, long *value, char *unit)
{
    char line[64];
    *unit = '\0';
    return file_first_line(path, line, sizeof line) && sscanf(line, "%ld%c", value, unit) >= 1 &&
           *value >= 0;
}

/* Returns the size in bytes of the last-level cache of processor `cpu`, or 0 if a processor with a
 * lower number shares that cache, so that each cache is counted once. */
static size_t cache_of(const char *root, int cpu)
{
    for (int level = CACHE_LEVEL_MAX; level > 0; level--) {
        char path[512], unit;
        long first, size;
        snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list",
                 root, cpu, level);
        if (!read_number(path, &first, &unit))
            continue;
        snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/cache/index%d/size", root, cpu,
                 level);
        if (first != cpu || !read_number(path, &size, &unit))
            return 0;
        return (size_t)size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
    }
    return 0;
}

size_t memory_caches(const char *root)
{
    size_t sum = 0;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (int cpu = 0; cpu < cpus && cpu < CPUS_MAX; cpu++)
        sum += cache_of(root, cpu);
    return sum;
}

/* --- printing --- */

static void memory_columns(struct bench_table *t, const void *row)
{
    const struct memory_row *w = row;
    const struct memory_result *r = t->context;
    column_text(t, "kernel", "", -8, w->name);
    if (t->format == BENCH_CSV)
        column_int(t, "array_bytes", NULL, 0, (int64_t)r->array_bytes);
    column_int(t, "bytes", NULL, 0, (int64_t)w->bytes);
    if (t->format == BENCH_CSV) {
        column_int(t, "threads", NULL, 0, r->threads);
        column_int(t, "n", NULL, 0, w->time.n);
        column_real(t, "min_s", NULL, 0, 0, 1, w->time.min);
        column_real(t, "median_s", NULL, 0, 0, 1, w->time.median);
        column_real(t, "p5_s", NULL, 0, 0, 1, w->time.p5);
        column_real(t, "p95_s", NULL, 0, 0, 1, w->time.p95);
    }
    column_json(t, "seconds", harness_json(&w->time));
    column_real(t, "best_gb_per_s", "best GB/s", 12, 2, 1, memory_best(w));
    column_real(t, "median_gb_per_s", "median GB/s", 12, 2, 1, memory_median(w));
    column_real(t, NULL, "p5 ms", 12, 3, 1e3, w->time.p5);
    column_real(t, NULL, "p95 ms", 12, 3, 1e3, w->time.p95);
    column_int(t, NULL, "n", 6, w->time.n);
    column_int(t, "wrong", "#wrong", 8, w->wrong);
    column_noise(t, &w->time.noise, NAN);
}

static void memory_print_head(const struct memory_result *r, FILE *out)
{
    fprintf(out, "%s\n%zu MiB an array", r->device, r->array_bytes >> 20);
    if (r->cache_bytes)
        fprintf(out, ", %zu MiB of last-level cache", r->cache_bytes >> 20);
    if (r->threads)
        fprintf(out, ", %d threads", r->threads);
    if (r->array_bytes < 4 * r->cache_bytes)
        fputs("\nan array is smaller than four times the caches, so the caches raise the rates",
              out);
    fputs("\n\n", out);
}

static enum status memory_print(const struct bench_options *o, const struct memory_result *r)
{
    const struct bench_head head = {"memory", 1, r->device, r->threads};
    struct bench_table t = bench_table_of(o, memory_columns, r);
    if (o->format == BENCH_TEXT)
        memory_print_head(r, o->out);
    bench_table_rows(&t, r->row, r->n, sizeof *r->row);
    return bench_record_rows(&head,
                             json_new("{s:I, s:I}", "array_bytes", (json_int_t)r->array_bytes,
                                      "cache_bytes", (json_int_t)r->cache_bytes),
                             "rows", &t);
}

/* --- between devices --- */

double memory_pair_rate(const struct memory_peers *p, int from, int to)
{
    const struct memory_pair *w = &p->pair[from][to];
    return w->measured && w->time.median > 0 ? (double)p->bytes * 1e-9 / w->time.median : 0;
}

static void memory_print_matrix(const struct memory_peers *p, struct bench_table *t)
{
    FILE *out = t->out;
    char remarks[BENCH_REMARKS_MAX];
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
        }
    }
    fprintf(out, "\n\n%s%s#wrong bytes: %" PRId64 "\n",
            t->disturbed ? "! disturbed by other work\n" : "",
            staged
                ? "* through host memory: the first device cannot access the memory of the other\n"
                : "",
            p->wrong);
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
    const struct bench_head head = {"memory_peers", 1, p->device, -1};
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
        &head, json_new("{s:i, s:I}", "devices", p->n, "bytes", (json_int_t)p->bytes), "pairs", &t);
}

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

/* Measures and prints copies between several devices ("cuda:0,1"). */
static enum status bench_memory_peers(const struct bench_options *o)
{
    struct device_list list;
    struct memory_peers *p;
    enum status st;
    TRY(device_list_parse(o->devices, &list));
    TRY(array_new(&p, 1));
    p->n = list.n;
    p->bytes = (size_t)(o->max_mib ? o->max_mib : DEVICE_MIB) << 20;
    CHECK(open_and_measure(o, &list, p));
    CHECK(memory_print_peers(o, p));
    st = harness_wrong(p->wrong, "bytes arrived wrong on another device");
done:
    free(p);
    return st;
}

/* --- the benchmark --- */

static enum status host_bytes(const struct bench_options *o, size_t caches, size_t *bytes)
{
    size_t line = 64, mib = (size_t)o->max_mib << 20;
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *bytes = mib ? mib : 4 * caches;
    if (*bytes < (size_t)ARRAY_MIB_LEAST << 20 && !mib)
        *bytes = (size_t)ARRAY_MIB_LEAST << 20;
    *bytes = (*bytes + line - 1) / line * line;
    if (*bytes > memory / 4)
        return status_fail(STATUS_USAGE,
                           "three arrays of %zu MiB are too large for a memory of %zu MiB; give a "
                           "smaller --max-mib",
                           *bytes >> 20, memory >> 20);
    return STATUS_OK;
}

static enum status memory_measure(const struct bench_options *o, struct memory_result *r)
{
    struct device *dev;
    size_t bytes;
    TRY(device_open(o->devices, o->threads, &dev));
    enum status st = STATUS_OK;
    dev->backend->describe(dev, r->device, sizeof r->device);
    if (dev->backend->asynchronous) {
        bytes = (size_t)(o->max_mib ? o->max_mib : DEVICE_MIB) << 20;
        CHECK(memory_measure_device(&o->timing, dev, bytes, r));
    } else {
        r->threads = dev->threads;
        r->cache_bytes = memory_caches("/sys");
        CHECK(host_bytes(o, r->cache_bytes, &bytes));
        CHECK(memory_measure_host(&o->timing, dev->threads, bytes, r));
    }
done:
    device_close(dev);
    return st;
}

enum status bench_memory(const struct bench_options *o)
{
    struct memory_result r = {.n = 0};
    int64_t wrong = 0;
    if (strchr(o->devices, ','))
        return bench_memory_peers(o);
    TRY(memory_measure(o, &r));
    TRY(memory_print(o, &r));
    for (int i = 0; i < r.n; i++)
        wrong += r.row[i].wrong;
    return harness_wrong(wrong, "elements of memory are wrong");
}
