/* Measures the throughput of input: one row for each stage and each number of threads. */
#include "bench/input.h"

#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "bench/record.h"

#include <inttypes.h>
#include <math.h>

/* The files count as dropped if at most this fraction of them is still in the page cache. */
static const double COLD_SHARE = 0.02;

/* Five stages; the three that read files have two rows each, warm and cold. */
enum { ROWS_PER_COUNT = 8 };

/* --- printing --- */

struct input_report {
    const struct input_config *config;
    const struct input_set *set;
    int cores;     /* number of cores that this process may use */
    double cached; /* fraction of the files that stayed in the page cache; cold rows are measured
                    * only if this fraction is small */
    bool cold;     /* cold rows are measured */
    struct input_row row[ROWS_PER_COUNT * INPUT_THREADS_MAX]; /* (rows) */
    int rows;
    int64_t wrong; /* images, of all rows */
};

static const char *const stage_name[INPUT_STAGES] = {"read", "decode", "resample", "loader", "gpu"};

static bool reads_files(enum input_stage stage)
{
    return stage == INPUT_READ || input_stage_loads(stage);
}

/* Returns the speed relative to the row that has the same stage, warm or cold, and the first
 * requested number of threads. */
static double speedup(const struct input_report *r, const struct input_row *w)
{
    for (int i = 0; i < r->rows; i++)
        if (r->row[i].stage == w->stage && r->row[i].cold == w->cold)
            return w->time.median > 0 ? r->row[i].time.median / w->time.median : 0;
    return 0;
}

static void input_columns(struct bench_table *t, const void *row)
{
    const struct input_row *w = row;
    const struct input_report *r = t->context;
    bool files = reads_files(w->stage);
    /* Number of cores in use, to compute the throughput per core: at most one per thread. */
    int cores = w->threads < r->cores ? w->threads : r->cores;
    double passes = w->time.median > 0 ? 1 / w->time.median : 0; /* per second */
    double rate = (double)w->images * passes;
    column_int(t, NULL, "threads", 7, w->threads);
    column_text(t, "stage", "stage", -9, stage_name[w->stage]);
    column_text(t, "from", "from", -6, !files ? "memory" : w->cold ? "cold" : "warm");
    column_int(t, "threads", NULL, 0, w->threads);
    column_int(t, "images", NULL, 0, w->images);
    column_int(t, "bytes", NULL, 0, w->bytes);
    harness_columns(t, "n", &w->time);
    column_real(t, "images_per_s", "images/s", 10, 1, 1, rate);
    column_real(t, "images_per_s_per_core", "per core", 10, 1, 1, rate / cores);
    if (t->format != BENCH_CSV)
        column_real(t, "files_per_s", "files/s", 9, 1, 1, files ? rate : NAN);
    column_real(t, "bytes_per_s", "MB/s", 9, 2, 1e-6, (double)w->bytes * passes);
    column_real(t, NULL, "p5 ms", 9, 3, 1e3, w->time.p5);
    column_real(t, NULL, "median ms", 9, 3, 1e3, w->time.median);
    column_real(t, NULL, "p95 ms", 9, 3, 1e3, w->time.p95);
    column_int(t, NULL, "n", 5, w->time.n);
    column_real(t, "speedup", "speed-up", 8, 2, 1, speedup(r, w));
    if (r->set->decoder)
        column_int(t, "on_gpu", "on gpu", 7, w->on_device);
    column_int(t, "wrong", "#wrong", 6, w->wrong);
    column_noise(t, &w->time.noise, NAN);
}

static const char *decoder_text(const struct input_set *set)
{
    return set->decoder ? set->decoder->name : set->no_decoder;
}

static void input_print_head(const struct input_report *r, FILE *out)
{
    text_print(out, "%" PRId64 " images of %s, %.1f MB, to %d px; %d cores", r->set->data.n,
               r->config->data ? r->config->data : "a generated set", (double)r->set->bytes * 1e-6,
               r->config->options.image_size, r->cores);
    if (r->config->device)
        text_print(out, "JPEG engines of %s: %s", r->config->device, decoder_text(r->set));
    if (r->cold)
        fputs("cold: the files are dropped from the page cache before each pass, but not from the "
              "disk's own caches\n\n",
              out);
    else
        fprintf(out,
                "cold: n/a, because %.0f %% of the files stay in the page cache after a request to "
                "drop them\n\n",
                r->cached * 100);
}

static enum status input_report_print(const struct input_report *r)
{
    const struct input_config *c = r->config;
    const struct bench_options *o = &c->options;
    struct bench_head head = {"input", 1, NULL, -1};
    struct bench_table t = bench_table_of(o, input_columns, r);
    for (int i = 0; i < r->rows; i++)
        head.workers = r->row[i].threads > head.workers ? r->row[i].threads : head.workers;
    if (o->format == BENCH_TEXT)
        input_print_head(r, o->out);
    bench_table_rows(&t, r->row, r->rows, sizeof *r->row);
    return bench_record_rows(
        &head,
        json_new("{s:s, s:s*, s:s, s:b, s:I, s:I, s:i, s:i, s:i, s:b, s:f}", "container",
                 r->set->data.shards ? "tar archives" : "folders of images", "gpu_decoder",
                 c->device ? decoder_text(r->set) : NULL, "decode", c->fast ? "fast" : "exact",
                 "generated", !c->data, "images", (json_int_t)r->set->data.n, "bytes",
                 (json_int_t)r->set->bytes, "image_size", o->image_size, "batch", o->batch, "cores",
                 r->cores, "cold_measured", r->cold, "cached_when_dropped", r->cached),
        "rows", &t);
}

/* --- the benchmark --- */

static enum status measure_rows(struct input_report *r)
{
    const struct input_config *c = r->config;
    int stages = r->set->decoder ? INPUT_STAGES : INPUT_GPU, n_cold = 0;
    /* Asks the system to drop the files from the page cache. Cold rows are measured only if the
     * files left the page cache. */
    TRY(input_set_drop(r->set));
    TRY(input_set_cached(r->set, &r->cached));
    r->cold = r->cached <= COLD_SHARE;
    for (int stage = 0; r->cold && stage < stages; stage++)
        n_cold += reads_files((enum input_stage)stage);
    bar_begin(c->options.timing.bar, (int64_t)c->n_threads * (stages + n_cold));
    for (int k = 0; k < c->n_threads; k++)
        for (int stage = 0; stage < stages; stage++)
            for (int cold = 1; cold >= 0; cold--) {
                if (cold && (!r->cold || !reads_files((enum input_stage)stage)))
                    continue;
                TRY(input_measure(c, r->set, (enum input_stage)stage, cold == 1, c->threads[k],
                                  &r->row[r->rows]));
                r->wrong += r->row[r->rows++].wrong;
            }
    return STATUS_OK;
}

enum status bench_input(const struct input_config *c)
{
    struct input_config counted = *c;
    struct input_set set = {0};
    struct input_report r = {.config = &counted, .set = &set, .cores = host_cores()};
    enum status st, closed;
    if (counted.n_threads == 0)
        counted.threads[counted.n_threads++] = r.cores;
    CHECK(input_set_open(&counted, &set));
    CHECK(measure_rows(&r));
    CHECK(input_report_print(&r));
    st = harness_wrong(r.wrong, "images have wrong pixels, or are missing or repeated");
done:
    closed = input_set_close(&set);
    return st != STATUS_OK ? st : closed;
}
