/* Opens the devices, and measures and prints peaks. */
#include "bench/micro.h"

#include "base/json.h"
#include "bench/record.h"
#include "bench/timed_op.h"

#include <math.h>

/* In a call that takes at least this long, the start-up time is negligible. */
#define LONG_ENOUGH_S 5e-3

enum {
    COPY_MIB_FIRST = 4,
    COPY_MIB_LAST = 1024,     /* larger than any cache */
    COPY_MIB_LAST_HOST = 256, /* used instead of COPY_MIB_LAST if the device uses host memory */
    LINEAR_FIRST = 256,
    LINEAR_LAST = 8192,
    CONV_IMAGES_LAST = 256,
};

static const enum dtype types[] = {DTYPE_F32, DTYPE_TF32, DTYPE_F16, DTYPE_BF16};

/* Measures the time of the fastest of `rounds` calls; of more, until it is stable, if it is long
 * enough or `last`. STATUS_UNSUPPORTED if the device lacks the operation. If `in_place`, Y uses the
 * memory of X. A processor reads a cache line before it overwrites the line. With a separate Y,
 * these extra reads would take time and would not be counted. */
static enum status best_time(struct stream *s, const struct op_desc *d, bool in_place, int rounds,
                             bool last, double *seconds)
{
    struct timed_op t;
    void *y = NULL;
    enum status st;
    CHECK(timed_op_open(&t, s, d));
    y = t.arg[ROLE_Y];
    if (in_place)
        t.arg[ROLE_Y] = t.arg[ROLE_X];
    CHECK(timed_op_warm(&t));
    *seconds = INFINITY;
    for (int i = 0; i < rounds; i++) {
        double one;
        CHECK(timed_op_time(&t, &one));
        *seconds = fmin(*seconds, one);
    }
    if (last || *seconds >= LONG_ENOUGH_S)
        CHECK(harness_least(rounds, timed_op_time, &t, seconds));
done:
    if (y)
        t.arg[ROLE_Y] = y;
    timed_op_close(&t);
    return st;
}

/* Describes a tensor of n MiB, 1 MiB per image. */
static struct tensor_desc mebibytes(int64_t n)
{
    return tensor_4d(DTYPE_F32, LAYOUT_NHWC, n, 64, 64, 64);
}

static struct op_desc add_of(int64_t mib)
{
    struct op_desc d = {.kind = OP_ADD};
    d.t[ROLE_X] = d.t[ROLE_Z] = d.t[ROLE_Y] = mebibytes(mib / 3 + 1);
    return d;
}

static struct op_desc relu_of(int64_t mib)
{
    struct op_desc d = {.kind = OP_RELU_FWD};
    d.t[ROLE_X] = d.t[ROLE_Y] = mebibytes(mib / 2);
    return d;
}

/* Describes a linear layer that multiplies two n x n matrices. */
static struct op_desc linear_of(enum dtype type, int64_t n)
{
    struct op_desc d = {.kind = OP_LINEAR_FWD};
    struct tensor_desc square = tensor_2d(DTYPE_F32, n, n);
    d.t[ROLE_X] = timed_op_typed(square, type, true);
    d.t[ROLE_Y] = timed_op_typed(square, type, false);
    d.t[ROLE_W] = timed_op_typed(square, type, true);
    d.t[ROLE_W].layout = LAYOUT_ANY;
    d.t[ROLE_W].bytes = 0;
    d.t[ROLE_B] = timed_op_typed(tensor_1d(DTYPE_F32, n), type, false);
    return d;
}

/* Describes a 3x3 convolution of 256 channels, as in the middle of a residual network, but without
 * padding: op_flops counts products with the padding too, which many kernels skip. */
static struct op_desc conv_of(enum dtype type, int64_t images)
{
    struct op_desc d = {.kind = OP_CONV_FWD, .attr.conv = {.stride = {1, 1}, .groups = 1}};
    struct tensor_desc x = tensor_4d(DTYPE_F32, LAYOUT_ANY, images, 256, 16, 16);
    struct tensor_desc y = tensor_4d(DTYPE_F32, LAYOUT_ANY, images, 256, 14, 14);
    d.t[ROLE_X] = timed_op_typed(x, type, true);
    d.t[ROLE_Y] = timed_op_typed(y, type, false);
    d.t[ROLE_W] = timed_op_typed(tensor_4d(DTYPE_F32, LAYOUT_ANY, 256, 256, 3, 3), type, true);
    return d;
}

/* Doubles the size of one operation until a call takes long enough. If the device lacks the
 * operation, nothing is measured. */
static enum status measure_products(struct stream *s, enum dtype type,
                                    struct op_desc (*make)(enum dtype, int64_t), int first,
                                    int last, int rounds, struct peaks *p)
{
    double seconds = 0;
    for (int n = first; n <= last && seconds < LONG_ENOUGH_S; n *= 2) {
        struct op_desc d = make(type, n);
        enum status st = best_time(s, &d, false, rounds, n == last, &seconds);
        if (st == STATUS_UNSUPPORTED)
            return STATUS_OK;
        TRY(st);
        p->flops_per_s[type] = fmax(p->flops_per_s[type], op_flops(&d) / seconds);
    }
    return STATUS_OK;
}

/* Whether products of values of this type are measured. */
static bool is_measured(struct device *dev, enum dtype type)
{
    return type == DTYPE_F32 || device_native(dev, type);
}

/* Returns the number of measurements of peak_measure: one for each size of the copies and for each
 * type. */
static int count_rates(struct device *dev, int last)
{
    int n = 0;
    for (int mib = COPY_MIB_FIRST; mib <= last && n < PEAK_COPIES_MAX; mib *= 4)
        n++;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        n += is_measured(dev, types[i]);
    return n;
}

/* Measures the peaks of an open device, each with at least `rounds` calls. `max_mib` is the size
 * of the largest working set, in MiB; 0: a size larger than any cache. `bar` shows the progress;
 * NULL: none. */
static enum status peak_measure(struct device *dev, int rounds, int max_mib, struct bar *bar,
                                struct peaks *p)
{
    const struct harness_config quiet = {.repeats = HARNESS_REPEATS};
    struct quiet q;
    int last = dev->backend->asynchronous ? COPY_MIB_LAST : COPY_MIB_LAST_HOST;
    struct stream *s;
    enum status st = STATUS_OK;
    *p = (struct peaks){0};
    dev->backend->describe(dev, p->device, sizeof p->device);
    TRY(dev->backend->stream_open(dev, &s));
    const enum conv_algorithm chosen = dev->conv_algorithm;
    dev->conv_algorithm = CONV_DIRECT; /* op_flops counts the products of a direct convolution */
    if (max_mib)
        last = max_mib;
    bar_begin(bar, count_rates(dev, last));
    for (int mib = COPY_MIB_FIRST; mib <= last && p->n_copies < PEAK_COPIES_MAX; mib *= 4) {
        const struct op_desc ops[] = {add_of(mib), relu_of(mib)};
        struct peak_copy *c = &p->copy[p->n_copies++];
        c->bytes = mib * 1048576.0;
        q = quiet_begin(&quiet);
        do {
            for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
                double seconds;
                CHECK(best_time(s, &ops[i], true, rounds, true, &seconds));
                c->bytes_per_s = fmax(c->bytes_per_s, roofline_bytes(&ops[i]) / seconds);
            }
            CHECK(quiet_end(&q, &c->noise));
        } while (q.again);
        bar_step(bar);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        enum dtype type = types[i];
        if (!is_measured(dev, type))
            continue;
        q = quiet_begin(&quiet);
        do {
            CHECK(measure_products(s, type, linear_of, LINEAR_FIRST, LINEAR_LAST, rounds, p));
            CHECK(measure_products(s, type, conv_of, 1, CONV_IMAGES_LAST, rounds, p));
            CHECK(quiet_end(&q, &p->noise[type]));
        } while (q.again);
        bar_step(bar);
    }
done:
    dev->conv_algorithm = chosen;
    bar_erase(bar);
    dev->backend->stream_close(s);
    return st;
}

/* --- the devices --- */

enum status micro_open(const char *devices, int threads, struct micro *m)
{
    *m = (struct micro){.dev = NULL};
    TRY(device_open(devices, threads, &m->dev));
    TRY(device_open("ref", 1, &m->ref_dev));
    TRY(m->dev->backend->stream_open(m->dev, &m->stream));
    TRY(m->ref_dev->backend->stream_open(m->ref_dev, &m->ref));
    m->dev->backend->describe(m->dev, m->about, sizeof m->about);
    return STATUS_OK;
}

static void close_stream(struct stream *s)
{
    if (s)
        s->device->backend->stream_close(s);
}

void micro_close(struct micro *m)
{
    close_stream(m->stream);
    close_stream(m->ref);
    device_close(m->dev);
    device_close(m->ref_dev);
    *m = (struct micro){.dev = NULL};
}

enum status micro_peaks(struct micro *m, const char *path, int rounds)
{
    return path ? peaks_read(path, &m->peaks) : peak_measure(m->dev, rounds, 0, NULL, &m->peaks);
}

/* --- the benchmark --- */

/* Prints a peak with its remarks, if the format is text, and counts it. */
static void print_peak(struct bench_table *t, const char *text, const struct host_noise *noise)
{
    char why[BENCH_REMARKS_MAX];
    bench_table_remarks(t, noise, NAN, why);
    if (t->format == BENCH_TEXT)
        fprintf(t->out, "%s%s%s\n", text, *why ? "  " : "", why);
}

static void print_peaks(const struct peaks *p, struct bench_table *t)
{
    char text[64];
    if (t->format == BENCH_TEXT)
        fprintf(t->out, "%s\n\n%-24s %10s\n", p->device, "bytes read and written", "GB/s");
    for (int i = 0; i < p->n_copies; i++) {
        snprintf(text, sizeof text, "%20.0f MiB %10.1f", p->copy[i].bytes / 1048576,
                 p->copy[i].bytes_per_s * 1e-9);
        print_peak(t, text, &p->copy[i].noise);
    }
    if (t->format == BENCH_TEXT)
        fprintf(t->out, "\n%-24s %10s\n", "products", "TFLOP/s");
    for (int i = 0; i < DTYPE_COUNT; i++) {
        snprintf(text, sizeof text, "%-24s %10.3f", dtype_str((enum dtype)i),
                 p->flops_per_s[i] * 1e-12);
        if (p->flops_per_s[i] > 0)
            print_peak(t, text, &p->noise[i]);
    }
}

enum status bench_peak(const struct bench_options *o)
{
    struct bench_table t = bench_table_of(o, NULL, NULL);
    struct device *dev;
    struct peaks p;
    TRY(device_open(o->devices, o->threads, &dev));
    const struct bench_head head = {"peak", PEAK_SCHEMA, p.device, dev->threads};
    enum status st = peak_measure(dev, o->rounds, o->max_mib, o->timing.bar, &p);
    device_close(dev);
    TRY(st);
    print_peaks(&p, &t);
    bench_warn(&head, &t);
    if (o->format == BENCH_TEXT)
        return STATUS_OK;
    json_print(bench_record(&head, peaks_json(&p)), o->out, JSON_RECORD);
    return STATUS_OK;
}
