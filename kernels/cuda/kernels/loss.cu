/* Softmax cross entropy, its gradient and the top-k counts. Each row is computed by one block. Then
 * a single block sums the results of the rows. */
#include "kernels/cuda/kernels/block.h"

/* The result of one row. */
struct xent_row {
    double loss;
    int64_t above; /* number of logits that rank above the label's logit; -1: the row has no
                    * label */
};

/* The workspace: the first row whose label is not a class, or -1; then the results of the rows. */
struct xent_work {
    int64_t bad;
    int64_t unused; /* aligns the rows to 16 bytes */
    struct xent_row row[1];
};

size_t cu_softmax_xent_workspace(int64_t rows)
{
    return offsetof(struct xent_work, row) + (size_t)rows * sizeof(struct xent_row);
}

static __global__ void check_labels(struct cu_xent a, struct xent_work *work)
{
    await_previous();
    __shared__ int64_t first[THREADS];
    int64_t mine = a.rows;
    for (int64_t n = threadIdx.x; n < a.rows; n += THREADS)
        if (a.label[n] >= a.classes && n < mine)
            mine = n;
    first[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < THREADS; i++)
        mine = first[i] < mine ? first[i] : mine;
    work->bad = mine < a.rows ? mine : -1;
    if (mine < a.rows && a.bad_label)
        *a.bad_label = mine;
}

/* A row of logits. The threads of a block divide the row's units among themselves; `max` is the
 * row's largest logit, and `log_sum` the logarithm of the sum of exp(x - max). */
template <typename T> struct logits {
    const T *x;
    int classes;
    float max, log_sum;
    bool aligned;
};

#define FOR_EACH_LOGIT_UNIT(classes, k, count)                                                     \
    for (int k = (int)threadIdx.x * UNIT; k < (classes); k += THREADS * UNIT)                      \
        if (int count = unit_count((classes), k))

template <typename T> static __device__ struct logits<T> logits_of(const T *x, int classes) {
    struct logits<T> l = {
        x, classes, -INFINITY, 0, classes % UNIT == 0
    };
    float sum = 0;
    FOR_EACH_LOGIT_UNIT(classes, k, count)
    {
        struct unit v = unit_load(x + k, count, l.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            if (i < count)
                l.max = fmaxf(l.max, v.v[i]);
    }
    l.max = block_max(l.max);
    FOR_EACH_LOGIT_UNIT(classes, k, count)
    {
        struct unit v = unit_load(x + k, count, l.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            sum += i < count ? expf(v.v[i] - l.max) : 0.0f;
    }
    l.log_sum = logf(block_sum(sum));
    return l;
}

/* The labels of a row and their weights. If the row has no partner, the second label is -1, with
 * weight 0. */
struct target {
    int label[2];
    float weight[2];
};

/* False if the row is excluded. */
template <bool MIXES>
static __device__ bool target_of(const struct cu_xent &a, int64_t n, struct target *t)
{
    t->label[0] = a.label[n];
    t->label[1] = -1;
    t->weight[0] = 1;
    t->weight[1] = 0;
    if (!MIXES)
        return t->label[0] >= 0;
    t->label[1] = a.label[a.partner[n]];
    t->weight[0] = a.state->mix;
    t->weight[1] = 1 - t->weight[0];
    return t->label[0] >= 0 && t->label[1] >= 0;
}

/* Returns the loss of a row, and the number of logits that rank above the label's logit. Every
 * thread of the block must call it. */
template <typename T>
static __device__ struct xent_row row_result(const struct logits<T> &l, const struct target &t,
                                             float smoothing)
{
    int label = t.weight[0] < t.weight[1] ? t.label[1] : t.label[0];
    float own = widen(l.x[label]), all = 0;
    int above = 0;
    FOR_EACH_LOGIT_UNIT(l.classes, k, count)
    {
        struct unit v = unit_load(l.x + k, count, l.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++)
            if (i < count) {
                all += v.v[i] - l.max - l.log_sum;
                above += v.v[i] > own || (v.v[i] == own && k + i < label);
            }
    }
    all = block_sum(all);
    above = block_sum(above);
    double loss = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) /* unrolled, so that the arrays stay in registers */
        if (t.weight[i] > 0)    /* if the weight is 0, a logit of -inf would give 0 * inf */
            loss -= (1 - (double)smoothing) * (double)t.weight[i] *
                    (double)(widen(l.x[t.label[i]]) - l.max - l.log_sum);
    if (smoothing > 0) /* if smoothing is 0, a logit of -inf would give 0 * inf */
        loss -= (double)smoothing / l.classes * (double)all;
    struct xent_row r = {loss, isnan(own) ? l.classes : above};
    return r;
}

template <typename T>
static __device__ void row_gradient(const struct logits<T> &l, const struct target &t,
                                    float smoothing, float scale, T *dx)
{
    float other = smoothing / (float)l.classes;
    FOR_EACH_LOGIT_UNIT(l.classes, k, count)
    {
        struct unit v = unit_load(l.x + k, count, l.aligned);
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            float target = k + i == t.label[0] ? other + (1 - smoothing) * t.weight[0] : other;
            if (k + i == t.label[1])
                target += (1 - smoothing) * t.weight[1];
            v.v[i] = scale * (expf(v.v[i] - l.max - l.log_sum) - target);
        }
        unit_store(dx + k, count, l.aligned, v);
    }
}

template <typename T, bool MIXES>
static __global__ void softmax_xent(struct cu_xent a, struct xent_work *work)
{
    await_previous();
    if (work->bad >= 0)
        return;
    for (int64_t n = blockIdx.x; n < a.rows; n += gridDim.x) {
        const T *x = (const T *)a.x + n * a.classes;
        T *dx = a.dx ? (T *)a.dx + n * a.classes : NULL;
        struct target target;
        struct xent_row result = {0, -1};
        if (target_of<MIXES>(a, n, &target)) {
            struct logits<T> l = logits_of(x, a.classes);
            result = row_result(l, target, a.label_smoothing);
            if (dx)
                row_gradient(l, target, a.label_smoothing, a.state->loss_scale / (float)a.rows, dx);
        } else if (dx) {
            for (int k = (int)threadIdx.x; k < a.classes; k += THREADS)
                dx[k] = narrow<T>(0);
        }
        if (threadIdx.x == 0)
            work->row[n] = result;
    }
}

static __global__ void sum_rows(struct cu_xent a, const struct xent_work *work)
{
    await_previous();
    if (work->bad >= 0)
        return;
    struct loss_metrics m = {};
    for (int64_t n = threadIdx.x; n < a.rows; n += THREADS) {
        struct xent_row r = work->row[n];
        if (r.above < 0)
            continue;
        m.loss_sum += r.loss;
        m.count++;
        m.top1 += r.above < 1;
        m.top5 += r.above < (a.classes < 5 ? a.classes : 5);
    }
    m.loss_sum = block_sum(m.loss_sum);
    m.count = block_sum(m.count);
    m.top1 = block_sum(m.top1);
    m.top5 = block_sum(m.top5);
    if (threadIdx.x == 0)
        *a.metrics = m;
}

template <typename T>
static enum status launch_rows(const struct cu_queue *q, const struct cu_xent *a,
                               struct xent_work *work)
{
    auto kernel = a->partner ? softmax_xent<T, true> : softmax_xent<T, false>;
    return launch("softmax_xent", launch_loop(q, a->rows, 1), kernel, *a, work);
}

enum status cu_softmax_xent(const struct cu_queue *q, const struct cu_xent *a, void *workspace)
{
    struct xent_work *work = (struct xent_work *)workspace;
    if (a->dx == a->x) /* threads read logits of a row while others write its gradient */
        return status_fail(STATUS_INVALID, "softmax_xent: dx must not be in the memory of x");
    cudaLaunchConfig_t one = launch_loop(q, 1, 1);
    TRY(launch("check_labels", one, check_labels, *a, work));
    TRY(LAUNCH_TYPED(a->type, launch_rows, q, a, work));
    return launch("sum_rows", one, sum_rows, *a, work);
}
