/* Decodes every file of a data set once, and prints what both splits contain and their problems. */
#include "input/scan.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "input/sample.h"
#include "input/synth.h"
#include "input/workers.h"

#include <inttypes.h>
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

/* --- both splits of a folder --- */

/* The results of both splits, and the problems found, each described in a sentence. */
struct findings {
    struct dataset *data[2];
    struct scan_report *report[2];
    json_t *problems;
};

static const char *const splits[2] = {"train", "val"};

/* If `st` is STATUS_DATA (missing or damaged data), adds its message to the problems and succeeds.
 * Returns any other failure, which ends the scan. */
static enum status note(struct findings *f, enum status st)
{
    if (st == STATUS_DATA)
        json_add(f->problems, json_utf8(status_message()));
    return st == STATUS_DATA ? STATUS_OK : st;
}

/* Adds one problem for each format that this build cannot decode, with the number of files. */
static enum status note_formats(struct findings *f, int split)
{
    const struct scan_report *r = f->report[split];
    for (int k = 0; k < IMAGE_FORMATS; k++) {
        enum image_format format = (enum image_format)k;
        const char *lacks = image_format_lacks(format);
        if (lacks && r->format[k] > 0)
            TRY(note(f, status_fail(STATUS_DATA,
                                    "%" PRId64 " %s file%s of '%s' cannot be read: this build has "
                                    "no %s; install %s-dev and build again",
                                    r->format[k], image_format_str(format),
                                    r->format[k] == 1 ? "" : "s", f->data[split]->name, lacks,
                                    lacks)));
    }
    return STATUS_OK;
}

static enum status look(const char *dir, int workers, struct bar *bar, struct findings *f)
{
    f->problems = json_array();
    bool exists;
    TRY(path_look(dir, &exists));
    if (!exists)
        return status_fail(STATUS_DATA, "there is no folder '%s'", dir);
    TRY(note(f, synth_check_complete(dir)));
    for (int s = 0; s < 2; s++)
        TRY(note(f, dataset_open(dir, splits[s], &f->data[s])));
    if (f->data[0] && f->data[1])
        TRY(note(f, dataset_check_pair(f->data[0], f->data[1])));
    if (f->data[0] || f->data[1])
        dataset_warn(f->data[0] ? f->data[0] : f->data[1], stderr);
    for (int s = 0; s < 2; s++)
        if (f->data[s]) {
            TRY(scan_run(f->data[s], workers, bar, &f->report[s]));
            TRY(note_formats(f, s));
        }
    return STATUS_OK;
}

static bool all_well(const struct findings *f)
{
    bool well = json_array_size(f->problems) == 0;
    for (int s = 0; s < 2; s++)
        well = well && f->report[s] && f->report[s]->n_bad == 0;
    return well;
}

static void print_range(FILE *out, const char *name, struct scan_range r, const char *unit)
{
    fprintf(out, "  %-18s %" PRId64 " .. %" PRId64 " .. %" PRId64 "%s\n", name, r.min, r.median,
            r.max, unit);
}

static void print_split(FILE *out, const struct dataset *d, const struct scan_report *r)
{
    text_print(out, "%s: %d class%s, %" PRId64 " image%s, %.1f MB", d->name, d->classes,
               d->classes == 1 ? "" : "es", r->images, r->images == 1 ? "" : "s",
               (double)r->bytes / 1e6);
    fputs("                     min .. median .. max\n", out);
    print_range(out, "images per class", r->per_class, "");
    print_range(out, "width", r->width, " px");
    print_range(out, "height", r->height, " px");
    print_range(out, "file size", r->sizes, " bytes");
    fputs("  ", out);
    for (int k = IMAGE_JPEG; k < IMAGE_FORMATS; k++)
        fprintf(out, "%s %" PRId64 ", ", image_format_str((enum image_format)k), r->format[k]);
    fprintf(out,
            "grayscale %" PRId64 ", CMYK %" PRId64 ", progressive %" PRId64 ", bad %" PRId64 "\n",
            r->gray, r->cmyk, r->progressive, r->n_bad);
    for (int64_t i = 0; i < r->n_bad; i++)
        text_print(out, "  bad: %s/%s: %s", d->root, dataset_path(d, r->bad[i].sample),
                   r->bad[i].reason);
}

static void print_text(const struct findings *f, FILE *out)
{
    for (int s = 0; s < 2; s++)
        if (f->report[s])
            print_split(out, f->data[s], f->report[s]);
    for (size_t i = 0; i < json_array_size(f->problems); i++)
        text_print(out, "problem: %s", json_string_value(json_array_get(f->problems, i)));
    if (all_well(f))
        fputs(f->data[0]->classes > 1 ? "all is well\n"
                                      : "nothing is missing or corrupt, but see the warning\n",
              out);
}

static json_t *range_json(struct scan_range r)
{
    return json_new("{s:I, s:I, s:I}", "min", (json_int_t)r.min, "median", (json_int_t)r.median,
                    "max", (json_int_t)r.max);
}

static json_t *split_json(const struct dataset *d, const struct scan_report *r)
{
    json_t *o = json_new(
        "{s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:{}, s:I, s:I, s:I, s:[]}", "classes", d->classes,
        "images", (json_int_t)r->images, "bytes", (json_int_t)r->bytes, "images_per_class",
        range_json(r->per_class), "width", range_json(r->width), "height", range_json(r->height),
        "file_bytes", range_json(r->sizes), "formats", "grayscale", (json_int_t)r->gray, "cmyk",
        (json_int_t)r->cmyk, "progressive", (json_int_t)r->progressive, "bad");
    json_t *formats = json_object_get(o, "formats"), *bad = json_object_get(o, "bad");
    for (int k = 0; k < IMAGE_FORMATS; k++)
        json_put(formats, image_format_str((enum image_format)k), json_integer(r->format[k]));
    for (int64_t i = 0; i < r->n_bad; i++)
        json_add(bad, json_new("{s:s, s:s}", "path", dataset_path(d, r->bad[i].sample), "reason",
                               r->bad[i].reason));
    return o;
}

static void print_json(const char *dir, const struct findings *f, FILE *out)
{
    json_t *root = json_new("{s:o, s:b, s:O}", "dir", json_utf8(dir), "ok", (int)all_well(f),
                            "problems", f->problems);
    for (int s = 0; s < 2; s++)
        if (f->report[s])
            json_put(root, splits[s], split_json(f->data[s], f->report[s]));
    json_print(root, out, JSON_INDENT(2));
}

enum status scan_folder(const char *dir, int workers, struct bar *bar, bool json, FILE *out,
                        bool *sound)
{
    struct findings f = {0};
    enum status st;
    *sound = false;
    CHECK(look(dir, workers, bar, &f));
    *sound = all_well(&f);
    if (json)
        print_json(dir, &f, out);
    else
        print_text(&f, out);
done:
    for (int s = 0; s < 2; s++) {
        scan_free(f.report[s]);
        dataset_free(f.data[s]);
    }
    json_decref(f.problems);
    return st;
}
