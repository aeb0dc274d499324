/* Memory bandwidth of the host and of devices: sizes, copies of a device, what is printed. */
#include "bench/memory.h"

#include "results/environment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CACHE_LEVEL_MAX = 3,
    CPUS_MAX = 8192,
    ARRAY_MIB_LEAST = 64, /* of the host, whatever its caches */
};

struct harness_config memory_timing_default(void)
{
    return (struct harness_config){.warmup = 2, .most = 50, .within = 0.01, .seconds = 5};
}

double memory_best(const struct memory_row *row)
{
    return row->time.min > 0 ? row->bytes * 1e-9 / row->time.min : 0;
}

double memory_median(const struct memory_row *row)
{
    return row->time.median > 0 ? row->bytes * 1e-9 / row->time.median : 0;
}

/* --- caches --- */

/* The number that a file begins with, and what follows it; false where there is none. */
static bool read_number(const char *path, long *value, char *unit)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return false;
    *unit = '\0';
    bool found = fscanf(in, "%ld%c", value, unit) >= 1 && *value >= 0;
    fclose(in);
    return found;
}

/* Of the last-level cache of processor `cpu`, where it is the first of those that share it. */
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

/* --- a device --- */

enum { UP, DOWN, WITHIN, COPIES };

struct copies {
    struct stream *stream;
    struct event *from, *to;
    size_t bytes;
    void *source, *back; /* the host's, pinned */
    void *first, *second;
    int copy; /* that is measured */
};

static enum status copy_once(const struct copies *m, int copy)
{
    const struct backend *b = m->stream->device->backend;
    if (copy == UP)
        return b->upload(m->stream, m->first, m->source, m->bytes);
    if (copy == DOWN)
        return b->download(m->stream, m->back, m->first, m->bytes);
    return b->copy(m->stream, m->second, m->first, m->bytes);
}

static enum status copy_sample(void *context, double *seconds)
{
    const struct copies *m = context;
    const struct backend *b = m->stream->device->backend;
    TRY(b->event_record(m->from, m->stream));
    TRY(copy_once(m, m->copy));
    TRY(b->event_record(m->to, m->stream));
    TRY(b->stream_sync(m->stream));
    *seconds = b->event_seconds(m->from, m->to);
    return STATUS_OK;
}

static enum status copies_open(struct copies *m, struct device *dev, size_t bytes)
{
    const struct backend *b = dev->backend;
    *m = (struct copies){.bytes = bytes};
    TRY(b->stream_open(dev, &m->stream));
    TRY(b->event_open(dev, &m->from));
    TRY(b->event_open(dev, &m->to));
    TRY(b->alloc_host(dev, bytes, &m->source));
    TRY(b->alloc_host(dev, bytes, &m->back));
    TRY(b->alloc(dev, bytes, &m->first));
    return b->alloc(dev, bytes, &m->second);
}

static void copies_close(struct copies *m, struct device *dev)
{
    const struct backend *b = dev->backend;
    if (m->second)
        b->free(dev, m->second);
    if (m->first)
        b->free(dev, m->first);
    if (m->back)
        b->free_host(dev, m->back);
    if (m->source)
        b->free_host(dev, m->source);
    if (m->to)
        b->event_close(m->to);
    if (m->from)
        b->event_close(m->from);
    if (m->stream)
        b->stream_close(m->stream);
}

/* Makes the copy once more, of values that it has not had yet, and brings its result back. */
static enum status copy_check(struct copies *m, int64_t *wrong)
{
    const struct backend *b = m->stream->device->backend;
    const unsigned char *sent = m->source, *got = m->back;
    for (size_t i = 0; i < m->bytes; i++)
        ((unsigned char *)m->source)[i] =
            (unsigned char)((i * 2654435761u >> 16) + 7u * (unsigned)m->copy);
    memset(m->back, 0, m->bytes);
    TRY(b->zero(m->stream, m->second, m->bytes));
    TRY(copy_once(m, UP));
    if (m->copy == WITHIN)
        TRY(copy_once(m, WITHIN));
    TRY(b->download(m->stream, m->back, m->copy == WITHIN ? m->second : m->first, m->bytes));
    TRY(b->stream_sync(m->stream));
    *wrong = 0;
    for (size_t i = 0; i < m->bytes; i++)
        *wrong += got[i] != sent[i];
    return STATUS_OK;
}

enum status memory_measure_device(const struct harness_config *timing, struct device *dev,
                                  size_t array_bytes, struct memory_result *r)
{
    static const char *const names[COPIES] = {"h2d", "d2h", "d2d"};
    struct copies m;
    enum status st;
    CHECK(copies_open(&m, dev, array_bytes));
    r->array_bytes = array_bytes;
    for (m.copy = 0; m.copy < COPIES; m.copy++) {
        struct memory_row *row = &r->row[m.copy];
        *row = (struct memory_row){.name = names[m.copy],
                                   .bytes = (double)array_bytes * (m.copy == WITHIN ? 2 : 1)};
        CHECK(harness_run(timing, copy_sample, &m, &row->time));
        CHECK(copy_check(&m, &row->wrong));
        r->n = m.copy + 1;
    }
done:
    copies_close(&m, dev);
    return st;
}

/* --- what is printed --- */

static void print_table(const struct memory_result *r, FILE *out)
{
    fprintf(out, "%s\n%zu MiB an array", r->device, r->array_bytes >> 20);
    if (r->cache_bytes)
        fprintf(out, ", %zu MiB of last-level cache", r->cache_bytes >> 20);
    if (r->threads)
        fprintf(out, ", %d threads", r->threads);
    if (r->array_bytes < 4 * r->cache_bytes)
        fputs("\nan array is less than four times the caches, which show in what follows", out);
    fprintf(out, "\n\n%-8s %12s %12s %12s %12s %6s %8s\n", "", "best GB/s", "median GB/s", "p5 ms",
            "p95 ms", "n", "#wrong");
    for (int i = 0; i < r->n; i++) {
        const struct memory_row *w = &r->row[i];
        fprintf(out, "%-8s %12.2f %12.2f %12.3f %12.3f %6" PRId64 " %8" PRId64 "\n", w->name,
                memory_best(w), memory_median(w), w->time.p5 * 1e3, w->time.p95 * 1e3, w->time.n,
                w->wrong);
    }
}

static void print_csv(const struct memory_result *r, FILE *out)
{
    fputs("kernel,array_bytes,bytes,threads,n,min_s,median_s,p5_s,p95_s,best_gb_per_s,"
          "median_gb_per_s,wrong\n",
          out);
    for (int i = 0; i < r->n; i++) {
        const struct memory_row *w = &r->row[i];
        fprintf(out, "%s,%zu,%.0f,%d,%" PRId64 ",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRId64 "\n",
                w->name, r->array_bytes, w->bytes, r->threads, w->time.n, w->time.min,
                w->time.median, w->time.p5, w->time.p95, memory_best(w), memory_median(w),
                w->wrong);
    }
}

static json_t *rows_json(const struct memory_result *r)
{
    json_t *rows = json_array();
    for (int i = 0; i < r->n; i++) {
        const struct memory_row *w = &r->row[i];
        json_array_append_new(rows, json_pack("{s:s, s:f, s:o, s:f, s:f, s:I}", "kernel", w->name,
                                              "bytes", w->bytes, "seconds", harness_json(&w->time),
                                              "best_gb_per_s", memory_best(w), "median_gb_per_s",
                                              memory_median(w), "wrong", (json_int_t)w->wrong));
    }
    return rows;
}

static enum status print_json(const struct memory_result *r, FILE *out)
{
    char now[ENVIRONMENT_TIME_MAX];
    json_t *host;
    environment_time(now);
    TRY(environment_describe(&host));
    json_t *record =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:i, s:I, s:I, s:o}", "schema", MEMORY_SCHEMA, "bench",
                  "memory", "measured", now, "device", r->device, "host", host, "threads",
                  r->threads, "array_bytes", (json_int_t)r->array_bytes, "cache_bytes",
                  (json_int_t)r->cache_bytes, "rows", rows_json(r));
    if (!record || !environment_program(record)) {
        json_decref(record);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_dumpf(record, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(record);
    return STATUS_OK;
}

/* --- all of it --- */

static enum status host_bytes(const struct memory_config *c, size_t caches, size_t *bytes)
{
    size_t line = 64, mib = (size_t)c->max_mib << 20;
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *bytes = mib ? mib : 4 * caches;
    if (*bytes < (size_t)ARRAY_MIB_LEAST << 20 && !mib)
        *bytes = (size_t)ARRAY_MIB_LEAST << 20;
    *bytes = (*bytes + line - 1) / line * line;
    if (*bytes > memory / 4)
        return status_fail(STATUS_USAGE,
                           "three arrays of %zu MiB are too much for a memory of %zu MiB; give a "
                           "smaller --max-mib",
                           *bytes >> 20, memory >> 20);
    return STATUS_OK;
}

static enum status measure(const struct memory_config *c, struct memory_result *r)
{
    struct device *dev;
    size_t bytes;
    TRY(device_open(c->devices, c->threads, &dev));
    enum status st = STATUS_OK;
    dev->backend->describe(dev, r->device, sizeof r->device);
    if (dev->backend->asynchronous) {
        bytes = (size_t)(c->max_mib ? c->max_mib : MEMORY_MIB_DEVICE) << 20;
        CHECK(memory_measure_device(&c->timing, dev, bytes, r));
    } else {
        r->threads = dev->threads;
        r->cache_bytes = memory_caches("/sys");
        CHECK(host_bytes(c, r->cache_bytes, &bytes));
        CHECK(memory_measure_host(&c->timing, dev->threads, bytes, r));
    }
done:
    device_close(dev);
    return st;
}

enum status bench_memory(const struct memory_config *c)
{
    struct memory_result r = {.n = 0};
    int64_t wrong = 0;
    if (strchr(c->devices, ','))
        return bench_memory_peers(c);
    TRY(measure(c, &r));
    if (c->json)
        TRY(print_json(&r, c->out));
    else if (c->csv)
        print_csv(&r, c->out);
    else
        print_table(&r, c->out);
    for (int i = 0; i < r.n; i++)
        wrong += r.row[i].wrong;
    if (wrong > 0)
        return status_fail(STATUS_MISMATCH, "%" PRId64 " elements of memory are wrong", wrong);
    return STATUS_OK;
}
