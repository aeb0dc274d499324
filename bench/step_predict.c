/* Predicts a training step from its plan. */
#include "bench/step_predict.h"

#include "base/array.h"
#include "kernels/module.h"

#include <stdlib.h>

static enum status open_network(const struct bench_options *o, struct step_prediction *p)
{
    struct program_config config;
    TRY(noise_step_config(o, false, &config));
    p->share = p->gpu.share > 0 && config.policy.activation != DTYPE_F32 ? p->gpu.share : 1;
    TRY(device_open_described(&p->gpu, &p->dev));
    p->dev->backend->describe(p->dev, p->about, sizeof p->about);
    return network_open(p->dev, p->graph, &config, 1, &p->net);
}

void predicted_kernel_add(struct predicted_kernel *sum, const struct predicted_kernel *k)
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

enum status bench_step_predict(const struct bench_options *o, const char *gpu)
{
    struct step_prediction p;
    enum status st = step_prediction_open(o, gpu, &p);
    if (st == STATUS_OK)
        st = step_prediction_print(&p);
    step_prediction_close(&p);
    return st;
}
