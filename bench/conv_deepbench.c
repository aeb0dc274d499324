/* Times DeepBench's convolutions one by one. */
#include "bench/conv_deepbench.h"

#include "base/file.h"
#include "bench/micro.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t outputs(int size, int filter, int pad, int stride)
{
    return (size + 2 * pad - filter) / stride + 1;
}

struct op_desc conv_deepbench_desc(const struct deepbench_conv *c, enum dtype type, int pass)
{
    struct op_desc fwd = {.kind = OP_CONV_FWD,
                          .attr.conv = {.stride = {c->stride_h, c->stride_w},
                                        .pad = {c->pad_h, c->pad_w},
                                        .groups = 1}};
    fwd.t[ROLE_X] = tensor_4d(DTYPE_F32, LAYOUT_ANY, c->n, c->c, c->h, c->w);
    fwd.t[ROLE_W] = tensor_4d(DTYPE_F32, LAYOUT_ANY, c->k, c->c, c->fh, c->fw);
    fwd.t[ROLE_Y] =
        tensor_4d(DTYPE_F32, LAYOUT_ANY, c->n, c->k, outputs(c->h, c->fh, c->pad_h, c->stride_h),
                  outputs(c->w, c->fw, c->pad_w, c->stride_w));
    struct op_desc d = conv_pass(&fwd, pass);
    static const enum role operands[] = {ROLE_X, ROLE_DY, ROLE_W};
    static const enum role results[] = {ROLE_Y, ROLE_DX};
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (d.t[operands[i]].ndim)
            d.t[operands[i]] = timed_op_typed(d.t[operands[i]], type, true);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (d.t[results[i]].ndim)
            d.t[results[i]] = timed_op_typed(d.t[results[i]], type, false);
    return d;
}

/* Returns the total size in MiB of the operation's tensors and of their fp32 copies, which the
 * check uses. */
static double needed_mib(const struct op_desc *d)
{
    double bytes = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (d->t[r].ndim)
            bytes += (double)tensor_count(&d->t[r]) * (double)(dtype_size(d->t[r].type) + 4);
    return bytes / 1048576;
}

static enum status measure_pass(const struct conv_deepbench_config *c, struct stream *s,
                                const struct op_desc *d, struct conv_deepbench_pass *p)
{
    struct timed_op t = {0};
    enum status st;
    CHECK(timed_op_open(&t, s, d));
    struct harness_config timing = c->options.timing;
    timing.bar = NULL; /* the progress bar advances once per row, not once per harness_run */
    CHECK(harness_run(&timing, timed_op_time, &t, &p->time));
    CHECK(conv_pass_check(&t, &p->wrong));
    p->measured = true;
done:
    timed_op_close(&t);
    if (st != STATUS_UNSUPPORTED && st != STATUS_OOM)
        return st;
    snprintf(p->why, sizeof p->why, "%s", status_message());
    return STATUS_OK;
}

enum status conv_deepbench_measure(const struct conv_deepbench_config *c, struct stream *s,
                                   double limit_mib, const struct deepbench_conv *conv,
                                   struct conv_deepbench_row *row)
{
    struct op_desc d[CONV_PASSES];
    *row = (struct conv_deepbench_row){.conv = conv};
    for (int i = 0; i < CONV_PASSES; i++) {
        d[i] = conv_deepbench_desc(conv, c->type, i);
        row->pass[i].flops = op_flops(&d[i]);
        row->mib = fmax(row->mib, needed_mib(&d[i]));
    }
    if (limit_mib > 0 && row->mib > limit_mib)
        snprintf(row->why, sizeof row->why, "it needs %.0f MiB, limit %.0f", row->mib, limit_mib);
    for (int i = 0; i < CONV_PASSES && !row->why[0]; i++)
        TRY(measure_pass(c, s, &d[i], &row->pass[i]));
    return STATUS_OK;
}

/* Returns the available host memory in MiB, or 0 if it is unknown. */
static double free_mib(void)
{
    enum { MEMINFO_MAX = 1 << 16 };
    char *text;
    size_t size;
    double kib = 0;
    if (file_read("/proc/meminfo", MEMINFO_MAX, &text, &size) != STATUS_OK)
        return 0;
    const char *line = strstr(text, "\nMemAvailable:");
    if (line)
        kib = strtod(line + strlen("\nMemAvailable:"), NULL);
    free(text);
    return kib / 1024;
}

static double memory_limit(const struct conv_deepbench_config *c, const struct device *dev)
{
    if (c->options.max_mib)
        return c->options.max_mib;
    return dev->backend->asynchronous ? 0 : 0.75 * free_mib();
}

enum status bench_conv_deepbench(const struct conv_deepbench_config *c, int n,
                                 const struct deepbench_conv *conv)
{
    struct conv_deepbench_report r = {.config = c};
    const struct bench_options *o = &c->options;
    struct conv_deepbench_row row;
    struct micro m = {.dev = NULL};
    enum status st = STATUS_OK;
    if (o->peak)
        TRY(peaks_read(o->peak, &r.peaks));
    CHECK(micro_open(o->devices, o->threads, &m));
    r.device = m.about;
    conv_deepbench_begin(&r);
    bar_begin(o->timing.bar, n);
    for (int i = 0; i < n; i++) {
        CHECK(conv_deepbench_measure(c, m.stream, memory_limit(c, m.dev), &conv[i], &row));
        conv_deepbench_row(&r, &row);
        bar_step(o->timing.bar);
    }
    CHECK(conv_deepbench_end(&r));
    st = harness_wrong(r.wrong, "elements of convolutions are wrong");
done:
    bench_table_close(&r.table);
    micro_close(&m);
    return st;
}
