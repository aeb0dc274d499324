/* Decoding everything once. */
#include "input/scan.h"

#include "input/sample.h"
#include "input/workers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct item {
    struct jpeg_info info;
    int64_t bytes;
    char *reason; /* NULL: sound */
};

struct scan {
    const struct dataset *data;
    int dir;
    struct item *item; /* (n) each written by the thread that took it */
};

static enum status open_reader(void *context, void **own)
{
    (void)context;
    struct sample_reader *r;
    enum status st = sample_reader_open(&r);
    *own = r;
    return st;
}

static void close_reader(void *own)
{
    sample_reader_close(own);
}

static enum status check_one(void *context, void *own, int64_t i)
{
    struct scan *scan = context;
    struct item *item = &scan->item[i];
    enum status st =
        sample_check(own, scan->dir, dataset_path(scan->data, i), &item->info, &item->bytes);
    if (st != STATUS_IO && st != STATUS_DATA)
        return st;
    item->reason = strdup(status_message());
    return item->reason ? STATUS_OK : status_fail(STATUS_OOM, "no memory for a list of bad files");
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static struct scan_range range_of(int64_t *value, int64_t n)
{
    if (n == 0)
        return (struct scan_range){0};
    qsort(value, (size_t)n, sizeof *value, by_value);
    return (struct scan_range){value[0], value[n / 2], value[n - 1]};
}

static void count_classes(const struct dataset *data, int64_t *value, struct scan_report *r)
{
    memset(value, 0, (size_t)data->classes * sizeof *value);
    for (int64_t i = 0; i < data->n; i++)
        value[dataset_label(data, i)]++;
    r->per_class = range_of(value, data->classes);
}

static int64_t item_bytes(const struct item *item)
{
    return item->bytes;
}

static int64_t item_width(const struct item *item)
{
    return item->info.width;
}

static int64_t item_height(const struct item *item)
{
    return item->info.height;
}

/* The range of something over the sound files; `value` has room for a number per image. */
static struct scan_range measure(const struct scan *scan, int64_t (*what)(const struct item *item),
                                 int64_t *value)
{
    int64_t sound = 0;
    for (int64_t i = 0; i < scan->data->n; i++)
        if (!scan->item[i].reason)
            value[sound++] = what(&scan->item[i]);
    return range_of(value, sound);
}

static void count_kinds(const struct scan *scan, struct scan_report *r)
{
    r->images = scan->data->n;
    for (int64_t i = 0; i < scan->data->n; i++) {
        const struct item *item = &scan->item[i];
        bool sound = item->reason == NULL;
        r->bytes += item->bytes;
        r->gray += sound && item->info.gray;
        r->cmyk += sound && item->info.cmyk;
        r->progressive += sound && item->info.progressive;
        r->n_bad += !sound;
    }
}

static enum status collect(struct scan *scan, struct scan_report *r)
{
    const struct dataset *data = scan->data;
    int64_t room = data->n > data->classes ? data->n : data->classes;
    int64_t *value = malloc((size_t)room * sizeof *value);
    if (!value)
        return status_fail(STATUS_OOM, "no memory to sum up %lld images", (long long)data->n);
    count_classes(data, value, r);
    count_kinds(scan, r);
    r->sizes = measure(scan, item_bytes, value);
    r->width = measure(scan, item_width, value);
    r->height = measure(scan, item_height, value);
    free(value);
    r->bad = calloc((size_t)r->n_bad + 1, sizeof *r->bad);
    if (!r->bad)
        return status_fail(STATUS_OOM, "no memory for a list of bad files");
    int64_t k = 0;
    for (int64_t i = 0; i < data->n; i++)
        if (scan->item[i].reason) {
            r->bad[k++] = (struct scan_bad){i, scan->item[i].reason};
            scan->item[i].reason = NULL; /* the report's now */
        }
    return STATUS_OK;
}

enum status scan_run(const struct dataset *data, int workers, FILE *progress,
                     struct scan_report **out)
{
    enum status st = STATUS_OK;
    *out = NULL;
    struct scan scan = {.data = data};
    struct scan_report *r = calloc(1, sizeof *r);
    scan.item = calloc((size_t)data->n, sizeof *scan.item);
    scan.dir = open(data->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!r || !scan.item) {
        st = status_fail(STATUS_OOM, "no memory to look at %lld images", (long long)data->n);
        goto done;
    }
    if (scan.dir < 0) {
        st = status_fail(STATUS_IO, "cannot open folder '%s': %m", data->root);
        goto done;
    }
    struct worker_job job = {data->n,     workers,   progress,    &scan,
                             open_reader, check_one, close_reader};
    CHECK(workers_run(&job));
    CHECK(collect(&scan, r));
    *out = r;
    r = NULL;
done:
    for (int64_t i = 0; scan.item && i < data->n; i++)
        free(scan.item[i].reason);
    free(scan.item);
    if (scan.dir >= 0)
        close(scan.dir);
    scan_free(r);
    return st;
}

void scan_free(struct scan_report *r)
{
    if (!r)
        return;
    for (int64_t i = 0; r->bad && i < r->n_bad; i++)
        free(r->bad[i].reason);
    free(r->bad);
    free(r);
}
