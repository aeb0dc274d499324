/* The optimizer's step in one pass over its buffers, the norms that LARS needs before the step, and
 * the check for gradients that are not finite.
 *
 * The flat buffers are cut into chunks that do not cross the end of a segment, and a block takes a
 * chunk at a time. */
#include "kernels/cuda/kernels/block.h"

enum { CHUNK = 4096 };

int64_t cu_chunks_cut(const struct sgd_attr *attr, struct cu_chunk *chunk)
{
    int64_t n = 0;
    for (int s = 0; s < attr->n_segments; s++) {
        int64_t end = attr->segment[s].end;
        /* All chunks of a segment except the first begin at a multiple of CHUNK. */
        for (int64_t at = attr->segment[s].begin; at < end; n++) {
            int64_t next = (at / CHUNK + 1) * CHUNK;
            next = next < end ? next : end;
            if (chunk)
                chunk[n] = {at, (int32_t)(next - at), s};
            at = next;
        }
    }
    return n;
}

static cudaLaunchConfig_t launch_chunks(const struct cu_queue *q, const struct cu_segments *s)
{
    return launch_loop(q, s->n_chunks, 1);
}

/* The part of a chunk that lies in unit `u` of the whole buffer, whose units are aligned. */
struct piece {
    int64_t at;
    int count;
};

static __device__ struct piece piece_of(const struct cu_chunk &c, int64_t u)
{
    int64_t begin = u * UNIT > c.begin ? u * UNIT : c.begin;
    int64_t end = (u + 1) * UNIT < c.begin + c.count ? (u + 1) * UNIT : c.begin + c.count;
    struct piece p = {begin, (int)(end - begin)};
    return p;
}

#define FOR_EACH_PIECE(c, p)                                                                       \
    for (int64_t u_ = (c).begin / UNIT + threadIdx.x; u_ * UNIT < (c).begin + (c).count;           \
         u_ += THREADS)                                                                            \
        for (struct piece p = piece_of((c), u_); p.count > 0; p.count = 0)

/* Loads the gradient of a piece, as stored. */
static __device__ struct unit load_gradient(const struct cu_sgd &a, bool half,
                                            const struct piece &p)
{
    return half ? unit_load_as(a.half, a.dw_half, p.at, p.count)
                : unit_load_as(a.gradient, a.dw, p.at, p.count);
}

/* --- norms: LARS, and the limit of the whole gradient's norm --- */

/* The workspace. Per chunk: the sums of squares of W and of the unscaled gradient. Per segment:
 * LARS's factor for gradient and weight decay. If the norm of the whole gradient is limited, LARS
 * is not used, and the first segment's factor is the clipping factor of all gradients. */
struct sgd_work {
    double *w, *dw;
    float *local;
};

static struct sgd_work sgd_work_of(const struct cu_segments *s, void *workspace)
{
    double *w = (double *)workspace;
    struct sgd_work work = {w, w + s->n_chunks, (float *)(w + 2 * s->n_chunks)};
    return work;
}

size_t cu_sgd_workspace(const struct cu_sgd *a, const struct cu_segments *s)
{
    size_t norms = 2 * (size_t)s->n_chunks * sizeof(double);
    return a->lars || a->clip > 0 ? norms + (size_t)s->n_segments * sizeof(float) : 0;
}

static __global__ void chunk_squares(struct cu_sgd a, struct cu_segments s, struct sgd_work work)
{
    await_previous();
    for (int64_t i = blockIdx.x; i < s.n_chunks; i += gridDim.x) {
        struct cu_chunk c = s.chunk[i];
        enum dtype gradient = s.segment[c.segment].gradient;
        bool half = s.segment[c.segment].half;
        double w = 0, dw = 0;
        if (s.segment[c.segment].trust == 0 && a.clip == 0)
            continue;
        FOR_EACH_PIECE(c, p)
        {
            struct unit wv = unit_load_as(DTYPE_F32, a.w, p.at, p.count);
            struct unit gv = load_gradient(a, half, p);
#pragma unroll
            for (int k = 0; k < UNIT; k++) {
                double g = (double)round_to(gradient, gv.v[k]);
                w += (double)wv.v[k] * (double)wv.v[k];
                dw += g * g;
            }
        }
        w = block_sum(w);
        dw = block_sum(dw);
        if (threadIdx.x == 0) {
            work.w[i] = w;
            work.dw[i] = dw;
        }
    }
}

static __global__ void local_rates(struct cu_sgd a, struct cu_segments s, struct sgd_work work)
{
    await_previous();
    for (int k = (int)blockIdx.x; k < s.n_segments; k += (int)gridDim.x) {
        struct sgd_segment g = s.segment[k];
        double w = 0, dw = 0;
        for (int64_t i = threadIdx.x; g.trust > 0 && i < s.n_chunks; i += THREADS)
            if (s.chunk[i].segment == k) {
                w += work.w[i];
                dw += work.dw[i];
            }
        w = sqrt(block_sum(w));
        dw = sqrt(block_sum(dw)) * (double)a.state->grad_scale;
        if (threadIdx.x == 0)
            work.local[k] = g.trust == 0 || w == 0 || dw == 0
                                ? 1.0f
                                : (float)((double)g.trust * w / (dw + (double)g.weight_decay * w));
    }
}

/* Computes the factor that limits the norm of the whole gradient. Runs as one block, which adds the
 * sums of the chunks in a fixed order. */
static __global__ void clip_factor(struct cu_sgd a, struct cu_segments s, struct sgd_work work)
{
    await_previous();
    double dw = 0;
    for (int64_t i = threadIdx.x; i < s.n_chunks; i += THREADS)
        dw += work.dw[i];
    dw = sqrt(block_sum(dw)) * (double)a.state->grad_scale;
    if (threadIdx.x == 0)
        work.local[0] = (float)fmin(1.0, (double)a.clip / (dw + 1e-6));
}

/* --- the step --- */

/* `local` is LARS's factor, `clip` the factor that limits the gradient's norm. */
static __device__ void step_piece(const struct cu_sgd &a, const struct sgd_segment &s, float local,
                                  float clip, const struct piece &p)
{
    struct unit g = load_gradient(a, s.half, p);
    struct unit w = unit_load_as(DTYPE_F32, a.w, p.at, p.count);
    struct unit v = unit_load_as(DTYPE_F32, a.v, p.at, p.count);
    float grad_scale = local * clip * a.state->grad_scale, decay = local * s.weight_decay;
    float lr = a.state->lr;
#pragma unroll
    for (int k = 0; k < UNIT; k++) {
        float gk = round_to(s.gradient, g.v[k]) * grad_scale + decay * w.v[k];
        float vk = a.momentum * v.v[k] + gk;
        float wk = w.v[k] - lr * (a.nesterov ? gk + a.momentum * vk : vk);
        v.v[k] = round_to(s.master, vk);
        w.v[k] = round_to(s.master, wk);
        g.v[k] = round_to(s.copy, w.v[k]);
    }
    unit_store_as(DTYPE_F32, a.v, p.at, p.count, v);
    unit_store_as(DTYPE_F32, a.w, p.at, p.count, w);
    if (a.wcopy)
        unit_store_as(a.copy, a.wcopy, p.at, p.count, g);
}

static __global__ void sgd(struct cu_sgd a, struct cu_segments s, const float *local,
                           const float *clip)
{
    await_previous();
    if (a.state->found_inf)
        return;
    for (int64_t i = blockIdx.x; i < s.n_chunks; i += gridDim.x) {
        struct cu_chunk c = s.chunk[i];
        struct sgd_segment g = s.segment[c.segment];
        float rate = local ? local[c.segment] : 1.0f, limit = clip ? *clip : 1.0f;
        FOR_EACH_PIECE(c, p)
        step_piece(a, g, rate, limit, p);
    }
}

enum status cu_sgd(const struct cu_queue *q, const struct cu_sgd *a, const struct cu_segments *s,
                   void *workspace)
{
    const float *local = NULL, *clip = NULL;
    if (a->lars || a->clip > 0) {
        struct sgd_work work = sgd_work_of(s, workspace);
        local = a->lars ? work.local : NULL;
        clip = a->lars ? NULL : work.local;
        TRY(launch("chunk_squares", launch_chunks(q, s), chunk_squares, *a, *s, work));
        if (a->lars)
            TRY(launch("local_rates", launch_loop(q, s->n_segments, 1), local_rates, *a, *s, work));
        else
            TRY(launch("clip_factor", launch_loop(q, 1, 1), clip_factor, *a, *s, work));
    }
    return launch("sgd", launch_chunks(q, s), sgd, *a, *s, local, clip);
}

/* --- the check --- */

static __global__ void check_begin(struct step_state *state)
{
    await_previous();
    state->found_inf = 0;
}

static __global__ void check_finite(struct cu_sgd a, struct cu_segments s, struct step_state *state)
{
    await_previous();
    bool finite = true;
    for (int64_t i = blockIdx.x; i < s.n_chunks; i += gridDim.x) {
        struct cu_chunk c = s.chunk[i];
        enum dtype gradient = s.segment[c.segment].gradient;
        bool half = s.segment[c.segment].half;
        FOR_EACH_PIECE(c, p)
        {
            struct unit g = load_gradient(a, half, p);
#pragma unroll
            for (int k = 0; k < UNIT; k++)
                finite = finite && isfinite(round_to(gradient, g.v[k]));
        }
    }
    if (!finite)
        state->found_inf = 1; /* all writers write the same value */
}

enum status cu_check_finite(const struct cu_queue *q, const struct cu_sgd *a,
                            const struct cu_segments *s, struct step_state *state)
{
    TRY(launch("check_begin", launch_config(q, 1, 1), check_begin, state));
    return launch("check_finite", launch_chunks(q, s), check_finite, *a, *s, state);
}
