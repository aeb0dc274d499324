/* Predicts a training step from its plan, and prints it. */
#include "bench/step_predict.h"

#include "base/array.h"
#include "base/json.h"
#include "bench/record.h"
#include "bench/step.h"
#include "kernels/module.h"

#include <stdlib.h>

enum { PREDICT_SCHEMA = 1 };

static enum status open_network(const struct bench_options *o, struct step_prediction *p)
{
    struct program_config config;
    TRY(noise_step_config(o, false, &config));
    p->share = p->gpu.share > 0 && config.policy.activation != DTYPE_F32 ? p->gpu.share : 1;
    TRY(device_open_described(&p->gpu, &p->dev));
    p->dev->backend->describe(p->dev, p->about, sizeof p->about);
    return network_open(p->dev, p->graph, &config, 1, &p->net);
}

/* Adds the numbers of `k` to `sum`. */
static void predicted_kernel_add(struct predicted_kernel *sum, const struct predicted_kernel *k)
{
    sum->operations += k->operations;
    sum->kernels += k->kernels;
    sum->read += k->read;
    sum->written += k->written;
    sum->flops += k->flops;
    sum->time.seconds += k->time.seconds;
    sum->time.dram_bytes += k->time.dram_bytes;
}

static enum status predict_operation(struct step_prediction *p, int i, struct gpu_cache *cache)
{
    struct step_info info = program_step(network_program(p->net, 0), i);
    struct traffic t;
    p->dev->backend->traffic(info.plan, &t);
    for (int k = 0; k < t.n; k++) {
        TRY(array_reserve(&p->kernel, p->n));
        struct predicted_kernel *row = &p->kernel[p->n++];
        *row = (struct predicted_kernel){.info = info,
                                         .what = t.kernel[k],
                                         .operations = k == 0,
                                         .kernels = 1,
                                         .read = t.kernel[k].copies,
                                         .written = t.kernel[k].copies,
                                         .flops = t.kernel[k].flops};
        for (int a = 0; a < row->what.n; a++)
            *(row->what.access[a].writes ? &row->written : &row->read) += row->what.access[a].bytes;
        row->time = gpu_time_of(&p->gpu, &info.plan->desc, &row->what, cache, info.arg);
        predicted_kernel_add(&p->all, row);
    }
    return STATUS_OK;
}

/* Predicts two steps and keeps the second one: in training, each step finds data of the previous
 * step in the cache. */
static enum status predict_steps(struct step_prediction *p)
{
    struct gpu_cache cache = {.n = 0};
    for (int step = 0; step < 2; step++) {
        p->n = 0;
        p->all = (struct predicted_kernel){.name = "all"};
        for (int i = 0; i < program_steps(network_program(p->net, 0)); i++)
            TRY(predict_operation(p, i, &cache));
    }
    return STATUS_OK;
}

enum status step_prediction_open(const struct bench_options *o, const char *gpu,
                                 struct step_prediction *p)
{
    *p = (struct step_prediction){.options = o};
    TRY(gpu_description_open(gpu, &p->gpu));
    TRY(graph_build(o->net, 1000, o->image_size, &p->graph));
    TRY(open_network(o, p));
    return predict_steps(p);
}

void step_prediction_close(struct step_prediction *p)
{
    network_close(p->net);
    device_close(p->dev);
    graph_free(p->graph);
    free(p->kernel);
    *p = (struct step_prediction){.n = 0};
}

double step_prediction_bytes(const struct step_prediction *p)
{
    return (p->all.read + p->all.written) / p->options->batch;
}

/* --- kernels --- */

static void predict_columns(struct bench_table *t, const void *row)
{
    const struct step_prediction *p = t->context;
    const struct predicted_kernel *k = row;
    const struct op_plan *plan = k->info.plan;
    column_text(t, "layer", "layer", -24, k->info.layer);
    column_text(t, "phase", NULL, 0, phase_str(k->info.phase));
    column_text(t, "op", "operation", -22, op_str(plan->desc.kind));
    column_bool(t, "library", k->what.library);
    column_real(t, "read_bytes", "read MB", 9, 2, 1e-6, k->read);
    column_real(t, "written_bytes", "write MB", 9, 2, 1e-6, k->written);
    column_real(t, "dram_bytes", "DRAM MB", 9, 2, 1e-6, k->time.dram_bytes);
    column_real(t, "flops", "GFLOP", 8, 2, 1e-9, k->flops);
    column_real(t, "predicted_s", "pred. us", 9, 1, 1e6, k->time.seconds);
    column_real(t, "share", "part %", 6, 2, 100, k->time.seconds / p->all.time.seconds);
    column_text(t, "limit", "limit", -7, k->time.compute ? "compute" : "memory");
    column_text(t, "kernel", "kernel", 0, k->what.name);
}

/* --- sums by kind of operation (only in the text report) --- */

static void predict_kind_columns(struct bench_table *t, const void *row)
{
    const struct step_prediction *p = t->context;
    const struct predicted_kernel *k = row;
    column_text(t, NULL, "operation", -22, k->name);
    column_int(t, NULL, "n", 4, k->operations);
    column_int(t, NULL, "kernels", 7, k->kernels);
    column_real(t, NULL, "MB/image", 9, 2, 1e-6, (k->read + k->written) / p->options->batch);
    column_real(t, NULL, "DRAM MB/image", 13, 2, 1e-6, k->time.dram_bytes / p->options->batch);
    column_real(t, NULL, "GFLOP/image", 11, 3, 1e-9, k->flops / p->options->batch);
    column_real(t, NULL, "pred. ms", 9, 3, 1e3, k->time.seconds);
    column_real(t, NULL, "part %", 6, 1, 100, k->time.seconds / p->all.time.seconds);
}

static void print_kinds(const struct step_prediction *p)
{
    struct predicted_kernel sum[OP_KIND_COUNT] = {{.kernels = 0}};
    struct bench_table t = bench_table_of(p->options, predict_kind_columns, p);
    for (int i = 0; i < p->n; i++)
        predicted_kernel_add(&sum[p->kernel[i].info.plan->desc.kind], &p->kernel[i]);
    fputc('\n', t.out);
    bench_table_open(&t, &p->all);
    for (int k = 0; k < OP_KIND_COUNT; k++) {
        sum[k].name = op_str((enum op_kind)k);
        if (sum[k].kernels)
            bench_table_row(&t, &sum[k]);
    }
    bench_table_row(&t, &p->all);
}

/* --- all --- */

static double images_per_s(const struct step_prediction *p)
{
    return p->options->batch / p->all.time.seconds;
}

static void print_head(const struct step_prediction *p)
{
    const struct bench_options *o = p->options;
    fprintf(o->out, "Predicted, not measured: %s, %d px, batch %d, %s, fuse %s on %s\n", o->net,
            o->image_size, o->batch, bench_precision(o), fuse_str(o->fuse), p->about);
    fprintf(o->out, "Rates: %.2f TB/s, %.0f TFLOP/s in half precision (%s)\n",
            p->gpu.bytes_per_s * 1e-12, p->gpu.flops_per_s[DTYPE_F16] * 1e-12, p->gpu.source);
}

static void print_sums(const struct step_prediction *p)
{
    const struct predicted_kernel *all = &p->all;
    print_kinds(p);
    fprintf(p->options->out,
            "\nPredicted: %d kernels a step, %.1f MB an image (%.1f MB from and to memory), "
            "%.2f ms a step, %.0f images/s; ",
            all->kernels, step_prediction_bytes(p) * 1e-6,
            all->time.dram_bytes / p->options->batch * 1e-6, all->time.seconds * 1e3,
            images_per_s(p));
    if (p->share < 1)
        fprintf(p->options->out,
                "at most %.0f images/s, as published results reach %.3f of the prediction (%s)\n",
                p->share * images_per_s(p), p->share, p->gpu.share_source);
    else
        fprintf(p->options->out, "at most that: no published results of this GPU and precision are "
                                 "known\n");
}

static json_t *rates_json(const struct gpu_description *g)
{
    return json_new("{s:f, s:f, s:f, s:f, s:s?}", "bytes_per_s", g->bytes_per_s, "half_flops_per_s",
                    g->flops_per_s[DTYPE_F16], "tf32_flops_per_s", g->flops_per_s[DTYPE_TF32],
                    "fp32_flops_per_s", g->flops_per_s[DTYPE_F32], "source", g->source);
}

static json_t *sums_json(const struct step_prediction *p)
{
    const struct predicted_kernel *all = &p->all;
    double images = p->options->batch;
    return json_new("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s?}", "operations",
                    all->operations, "kernels", all->kernels, "bytes_per_image",
                    step_prediction_bytes(p), "dram_bytes_per_image", all->time.dram_bytes / images,
                    "flops_per_image", all->flops / images, "predicted_step_s", all->time.seconds,
                    "predicted_images_per_s", images_per_s(p), "at_most_images_per_s",
                    p->share * images_per_s(p), "published_share", p->share, "published_source",
                    p->gpu.share_source);
}

static enum status print_json(const struct step_prediction *p, struct bench_table *kernels)
{
    const struct bench_options *o = p->options;
    const struct bench_head head = {"step_predict", PREDICT_SCHEMA, p->about, -1,
                                    .time = "predicted"};
    struct bench_table fusions;
    step_fusions(o, network_program(p->net, 0), &fusions);
    json_t *choices = bench_table_take(&fusions);
    return bench_record_rows(&head,
                             json_new("{s:s, s:i, s:i, s:s, s:s, s:o, s:o, s:o}", "net", o->net,
                                      "batch", o->batch, "image_size", o->image_size, "precision",
                                      bench_precision(o), "fuse", fuse_str(o->fuse), "rates",
                                      rates_json(&p->gpu), "sums", sums_json(p), "fusions",
                                      choices),
                             "kernels", kernels);
}

static enum status print(const struct step_prediction *p)
{
    struct bench_table kernels = bench_table_of(p->options, predict_columns, p), fusions;
    enum status st = STATUS_OK;
    if (p->options->format == BENCH_TEXT)
        print_head(p);
    bench_table_rows(&kernels, p->kernel, p->n, sizeof *p->kernel);
    if (p->options->format == BENCH_TEXT) {
        step_fusions(p->options, network_program(p->net, 0), &fusions);
        print_sums(p);
    } else if (p->options->format == BENCH_JSON) {
        st = print_json(p, &kernels);
    }
    bench_table_close(&kernels);
    return st;
}

enum status bench_step_predict(const struct bench_options *o, const char *gpu)
{
    struct step_prediction p;
    enum status st = step_prediction_open(o, gpu, &p);
    st = st == STATUS_OK ? print(&p) : st;
    step_prediction_close(&p);
    return st;
}
