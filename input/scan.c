/* Decodes every file of a data set once. */
#include "input/scan.h"

#include "base/array.h"
#include "input/sample.h"
#include "input/workers.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct item {
    struct image_info info;
    int64_t bytes, width, height;
    char *reason; /* NULL: intact */
};

struct scan {
    const struct dataset *data;
    struct image_files files;
    struct item *item; /* (n) each item is written by the thread that decodes the file */
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
    enum status st = sample_check(own, image_files_at(&scan->files, i), &item->info, &item->bytes);
    item->width = item->info.width;
    item->height = item->info.height;
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

/* Sorts `n` values and returns their range. */
static struct scan_range range_of(int64_t *value, int64_t n)
{
    if (n == 0)
        return (struct scan_range){0};
    qsort(value, (size_t)n, sizeof *value, by_value);
    return (struct scan_range){value[0], value[n / 2], value[n - 1]};
}

/* Returns the range of one member of struct item over the intact files; `member` is the member's
 * offset in the struct. `value` is working memory for one value per image. */
static struct scan_range scan_measure(const struct scan *scan, size_t member, int64_t *value)
{
    int64_t sound = 0;
    for (int64_t i = 0; i < scan->data->n; i++)
        if (!scan->item[i].reason)
            memcpy(&value[sound++], (const char *)&scan->item[i] + member, sizeof *value);
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
        r->format[item->info.format]++;
        r->n_bad += !sound;
    }
}

static enum status scan_collect(struct scan *scan, struct scan_report *r)
{
    const struct dataset *data = scan->data;
    int64_t room = data->n > data->classes ? data->n : data->classes;
    int64_t *value;
    TRY(array_new(&value, room));
    memset(value, 0, (size_t)data->classes * sizeof *value);
    for (int64_t i = 0; i < data->n; i++)
        value[dataset_label(data, i)]++;
    r->per_class = range_of(value, data->classes);
    count_kinds(scan, r);
    r->sizes = scan_measure(scan, offsetof(struct item, bytes), value);
    r->width = scan_measure(scan, offsetof(struct item, width), value);
    r->height = scan_measure(scan, offsetof(struct item, height), value);
    free(value);
    TRY(array_new(&r->bad, r->n_bad));
    int64_t k = 0;
    for (int64_t i = 0; i < data->n; i++)
        if (scan->item[i].reason) {
            r->bad[k++] = (struct scan_bad){i, scan->item[i].reason};
            scan->item[i].reason = NULL; /* now owned by the report */
        }
    return STATUS_OK;
}

enum status scan_run(const struct dataset *data, int workers, struct bar *bar,
                     struct scan_report **out)
{
    enum status st = STATUS_OK;
    *out = NULL;
    struct scan scan = {.data = data};
    struct scan_report *r = NULL;
    CHECK(image_files_open(data, &scan.files));
    CHECK(array_new(&r, 1));
    CHECK(array_new(&scan.item, data->n));
    struct worker_job job = {data->n, workers, bar, &scan, open_reader, check_one, close_reader};
    CHECK(workers_run(&job));
    CHECK(scan_collect(&scan, r));
    *out = r;
    r = NULL;
done:
    for (int64_t i = 0; scan.item && i < data->n; i++)
        free(scan.item[i].reason);
    free(scan.item);
    image_files_close(&scan.files);
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
