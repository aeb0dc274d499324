/* Batch norm: forward in training and evaluation, forward again from statistics, and backward.
 *
 * All these operations have the same steps: sums over a panel's images, coefficients from the sums,
 * and a pass that writes the results. The values of an image are summed in small groups, in float.
 * The sums of the groups are added in double. Last, the sums of the images are added in order.
 *
 * Forward computes the sums of (x - shift) and of its square in one pass. If shift is the mean of m
 * of the channel's n values,
 *   n * (mean - shift)^2 <= (n / m) * sum((x - mean)^2).
 * Subtracting the left side from sum((x - shift)^2) gives sum((x - mean)^2). This loses at most a
 * factor n / m of precision, however large the channel's mean is; in practice it loses no
 * precision.
 *
 * With statistics over several ranks (struct bn_sync), all threads wait between the sums and the
 * coefficients while the ranks exchange their sums.
 *
 * All activations have the same kind of element. Parameters and running statistics are stored as
 * fp32, but their values may be rounded to another type. If there is a DZ, the first backward pass
 * writes it, and the second backward pass reads DZ in place of DY, DY2 and Y.
 *
 * A MASK has this backend's own order: bit i % 16 of its 16-bit word i / 16 belongs to the element
 * at offset i of X. */
#include "kernels/cpu/bn_steps.h"

static void run_panel(const struct bn_run *r, int64_t panel)
{
    const struct bn_steps *steps = r->plan->steps;
    int64_t images = r->plan->shape.images;
    if (steps->shift)
        steps->shift(r, panel);
    for (int64_t n = 0; steps->sums && n < images; n++)
        steps->sums(r, panel, n);
    steps->finish(r, panel);
    /* Begins with the last image, because the images that were summed last are still in the
     * cache. */
    for (int64_t n = images - 1; n >= 0; n--)
        steps->write(r, panel, n);
}

/* Executes the steps up to the sums; all threads share each step. Every thread of the parallel
 * region must call it, because each loop ends in a barrier. */
static void run_shared_sums(const struct bn_run *r)
{
    const struct bn_steps *steps = r->plan->steps;
    int64_t panels = r->plan->shape.panels, pieces = panels * r->plan->shape.images;
    if (steps->shift) {
#pragma omp for
        for (int64_t p = 0; p < panels; p++)
            steps->shift(r, p);
    }
    if (steps->sums) {
#pragma omp for
        for (int64_t i = 0; i < pieces; i++)
            steps->sums(r, i % panels, i / panels);
    }
}

/* Executes the steps from the coefficients on; all threads share each step. Every thread of the
 * parallel region must call it. */
static void run_shared_results(const struct bn_run *r)
{
    const struct bn_steps *steps = r->plan->steps;
    int64_t panels = r->plan->shape.panels, pieces = panels * r->plan->shape.images;
#pragma omp for
    for (int64_t p = 0; p < panels; p++)
        steps->finish(r, p);
#pragma omp for
    for (int64_t i = 0; i < pieces; i++)
        steps->write(r, i % panels, i / panels);
}

/* Executes a batch norm with statistics over several ranks: the steps up to the sums, the sum over
 * ranks, then the other steps. */
static enum status run_with_others(const struct bn_run *r)
{
    const struct op_plan *base = &r->plan->base;
    const struct bn_shape *s = &r->plan->shape;
#pragma omp parallel num_threads(base->device->threads)
    {
        run_shared_sums(r);
#pragma omp for
        for (int64_t p = 0; p < s->panels; p++)
            r->plan->steps->gather(r, p);
    }
    r->total[2 * s->channels] = (double)(s->images * s->spatial);
    TRY(bn_sync_sum(base->desc.attr.bn.sync, r->total, s->channels));
#pragma omp parallel num_threads(base->device->threads)
    run_shared_results(r);
    return STATUS_OK;
}

/* Sizes of the workspace's pieces in bytes. */
static size_t sum_bytes(const struct bn_shape *s)
{
    return cpu_align((size_t)(s->images * s->channels) * sizeof(double));
}

static size_t channel_bytes(const struct bn_shape *s)
{
    return cpu_align((size_t)s->channels * sizeof(float));
}

/* Bytes of the totals; 0 without sums over ranks. */
static size_t total_bytes(const struct bn_plan *p)
{
    if (!p->steps->gather || !p->base.desc.attr.bn.sync)
        return 0;
    return cpu_align((size_t)(2 * p->shape.channels + 1) * sizeof(double));
}

static struct bn_run bn_run_of(const struct bn_plan *p, void *const arg[ROLE_COUNT])
{
    char *w = arg[ROLE_WORKSPACE];
    size_t sums = sum_bytes(&p->shape), channels = channel_bytes(&p->shape);
    float *f = (float *)(w + 2 * sums);
    size_t step = channels / sizeof(float);
    return (struct bn_run){
        .plan = p,
        .arg = arg,
        .sum = {(double *)w, (double *)(w + sums)},
        .total = total_bytes(p) ? (double *)(w + 2 * sums + 5 * channels) : NULL,
        .shift = f,
        .mean = f + step,
        .scale = f + 2 * step,
        .bias = f + 3 * step,
        .slope = f + 4 * step,
    };
}

static enum status bn_execute(struct op_plan *base, void *const arg[ROLE_COUNT], struct stream *s)
{
    (void)s;
    const struct bn_plan *p = (const struct bn_plan *)base;
    struct bn_run run = bn_run_of(p, arg);
    if (run.total)
        return run_with_others(&run);
#pragma omp parallel num_threads(base->device->threads)
    {
        if (p->panel_per_thread) {
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < p->shape.panels; i++)
                run_panel(&run, i);
        } else {
            run_shared_sums(&run);
            run_shared_results(&run);
        }
    }
    return STATUS_OK;
}

/* Predicts the time from the memory traffic, at a nominal bandwidth. A plan that reads Y and a plan
 * that reads the signs of Y differ only in this traffic. The time is not measured, because measured
 * times could make two runs choose different plans. */
static enum status bn_seconds(struct op_plan *plan, double *seconds)
{
    const double bytes_per_second = 20e9;
    double bytes = 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (plan->desc.t[r].ndim)
            bytes += (double)plan->desc.t[r].bytes;
    *seconds = bytes / bytes_per_second;
    return STATUS_OK;
}

static enum status bn_plan_new(struct device *dev, const struct op_desc *desc,
                               const struct bn_steps *steps, struct op_plan **plan)
{
    TRY(cpu_plan_new(dev, desc, sizeof(struct bn_plan), bn_execute, plan));
    struct bn_plan *p = (struct bn_plan *)*plan;
    p->element = element_of(&desc->t[ROLE_X]);
    p->kernels = cpu_device_of(dev)->kernels->bn[p->element];
    p->steps = steps;
    p->shape = bn_shape_of(&desc->t[ROLE_X]);
    int64_t panels = p->shape.panels;
    p->panel_per_thread = panels % dev->threads == 0 || panels >= 4 * dev->threads;
    p->stream = desc->t[ROLE_X].bytes >= cpu_device_of(dev)->stream_bytes;
    p->base.seconds = bn_seconds;
    p->base.workspace = 2 * sum_bytes(&p->shape) + 5 * channel_bytes(&p->shape) + total_bytes(p);
    return STATUS_OK;
}

static enum status take_all(struct op_desc *d)
{
    static const enum role like_x[] = {ROLE_X, ROLE_Y, ROLE_Z, ROLE_DX, ROLE_DY, ROLE_DY2, ROLE_DZ};
    static const enum role of_channels[] = {ROLE_GAMMA, ROLE_BETA,   ROLE_RMEAN,
                                            ROLE_RVAR,  ROLE_DGAMMA, ROLE_DBETA};
    struct bn_shape shape = bn_shape_of(&d->t[ROLE_X]);
    if (d->t[ROLE_MASK].ndim && !bn_shape_whole_lines(&shape))
        return status_fail(STATUS_UNSUPPORTED, "batch norm on the CPU has no mask for this shape");
    TRY(cpu_take(d, ROLE_MASK, DTYPE_U8, LAYOUT_OPAQUE));
    if (d->t[ROLE_Z_AFFINE].ndim || d->t[ROLE_Z_GAMMA].ndim)
        return status_fail(STATUS_UNSUPPORTED,
                           "batch norm on the CPU cannot include the residual's batch norm");
    for (size_t i = 0; i < sizeof like_x / sizeof *like_x; i++)
        TRY(cpu_take_like(d, like_x[i], d->t[ROLE_X].layout, &d->t[ROLE_X]));
    for (size_t i = 0; i < sizeof of_channels / sizeof *of_channels; i++)
        TRY(cpu_take_rounded(d, of_channels[i], LAYOUT_PLAIN, d->t[of_channels[i]].rounds));
    TRY(cpu_take(d, ROLE_MEAN, DTYPE_F32, LAYOUT_PLAIN));
    return cpu_take(d, ROLE_INVSTD, DTYPE_F32, LAYOUT_PLAIN);
}

enum status cpu_plan_bn_fwd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(take_all(&d));
    const struct bn_steps *steps = d.kind == OP_BN_FWD_TRAIN ? &bn_train_steps
                                   : d.kind == OP_BN_APPLY   ? &bn_apply_steps
                                                             : &bn_eval_steps;
    return bn_plan_new(dev, &d, steps, plan);
}

enum status cpu_plan_bn_bwd(struct device *dev, const struct op_desc *desc, struct op_plan **plan)
{
    struct op_desc d = *desc;
    TRY(take_all(&d));
    return bn_plan_new(dev, &d, &bn_backward_steps, plan);
}
