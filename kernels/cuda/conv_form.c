/* Makes the graphs of convolutions and of the operations fused with them. */
#include "kernels/cuda/conv_plan.h"

/* The shapes of one problem. */
struct shapes {
    int64_t x[4]; /* of X and DX */
    int64_t w[4];
    int64_t y[4];
};

/* Adds the problem's three tensors, and returns their shapes. */
static struct shapes add_tensors(struct cudnn_graph *g, const struct conv_problem *a,
                                 enum cg_port x, enum cg_port w, enum cg_port y)
{
    struct shapes s = {.x = {a->n, a->c, a->h, a->w},
                       .w = {a->k, a->c / a->conv.groups, a->r, a->s},
                       .y = {a->n, a->k, a->p, a->q}};
    cg_tensor(g, x, a->type, s.x);
    cg_tensor(g, w, a->type, s.w);
    cg_tensor(g, y, a->type, s.y);
    return s;
}

/* Adds the virtual tensor relu(X * PRO_SCALE + PRO_SHIFT). The engines need scale and shift in the
 * type of X. They need intermediate values in fp32 if a forward convolution follows, but in the
 * type of X if the gradient of the weights follows. */
static int apply(struct cudnn_graph *g, const struct conv_problem *a, const int64_t x[4],
                 enum dtype between)
{
    cg_channels(g, CG_PRO_SCALE, a->type, a->c);
    cg_channels(g, CG_PRO_SHIFT, a->type, a->c);
    int scaled = cg_virtual(g, between, x);
    int shifted = cg_virtual(g, between, x);
    int applied = cg_virtual(g, between, x);
    cg_mul(g, CG_X, CG_PRO_SCALE, scaled);
    cg_add(g, scaled, CG_PRO_SHIFT, shifted);
    cg_relu(g, shifted, applied);
    return applied;
}

/* Adds the virtual tensor x * scale + shift. */
static int scaled(struct cudnn_graph *g, const struct conv_problem *a, const int64_t dim[4],
                  enum cg_port x, enum cg_port scale, enum cg_port shift)
{
    cg_channels(g, scale, a->type, a->c);
    cg_channels(g, shift, a->type, a->c);
    int product = cg_virtual(g, DTYPE_F32, dim);
    int sum = cg_virtual(g, DTYPE_F32, dim);
    cg_mul(g, x, scale, product);
    cg_add(g, product, shift, sum);
    return sum;
}

/* Adds CG_APPLIED, the result of a residual block. */
static void end_block(struct cudnn_graph *g, const struct conv_problem *a, const int64_t x[4])
{
    bool two = a->form == CONV_END_TWO_FWD_STATS;
    int shortcut = CG_SHORTCUT;
    cg_tensor(g, two ? CG_Z : CG_SHORTCUT, a->type, x);
    cg_tensor(g, CG_APPLIED, a->type, x);
    int main_path = scaled(g, a, x, CG_X, CG_PRO_SCALE, CG_PRO_SHIFT);
    if (two)
        shortcut = scaled(g, a, x, CG_Z, CG_Z_SCALE, CG_Z_SHIFT);
    int sum = cg_virtual(g, DTYPE_F32, x);
    cg_add(g, main_path, shortcut, sum);
    cg_relu(g, sum, CG_APPLIED);
}

static void build_fwd(struct cudnn_graph *g, const struct conv_problem *a)
{
    bool ends = a->form == CONV_END_FWD_STATS || a->form == CONV_END_TWO_FWD_STATS;
    bool stats = a->form == CONV_FWD_STATS || a->form == CONV_APPLY_FWD_STATS || ends;
    struct shapes s = add_tensors(g, a, CG_X, CG_W, CG_Y);
    int x = a->form == CONV_APPLY_FWD_STATS ? apply(g, a, s.x, DTYPE_F32) : CG_X;
    if (ends) {
        end_block(g, a, s.x);
        x = CG_APPLIED;
    }
    cg_conv_fwd(g, x, CG_W, CG_Y, &a->conv);
    if (stats) {
        cg_channels(g, CG_SUM, DTYPE_F32, a->k);
        cg_channels(g, CG_SQSUM, DTYPE_F32, a->k);
        cg_gen_stats(g, CG_Y, CG_SUM, CG_SQSUM);
    }
}

static void build_fwd_bias(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = add_tensors(g, a, CG_X, CG_W, CG_Y);
    cg_channels(g, CG_BIAS, DTYPE_F32, a->k);
    int product = cg_virtual(g, DTYPE_F32, s.y);
    cg_conv_fwd(g, CG_X, CG_W, product, &a->conv);
    if (a->form == CONV_FWD_BIAS) {
        cg_add(g, product, CG_BIAS, CG_Y);
        return;
    }
    int biased = cg_virtual(g, DTYPE_F32, s.y);
    cg_add(g, product, CG_BIAS, biased);
    cg_relu(g, biased, CG_Y);
}

static void build_bwd_data(struct cudnn_graph *g, const struct conv_problem *a)
{
    add_tensors(g, a, CG_DX, CG_W, CG_DY);
    cg_conv_bwd_data(g, CG_DX, CG_W, CG_DY, &a->conv);
}

static void build_bwd_weights(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = add_tensors(g, a, CG_X, CG_DW, CG_DY);
    int x = a->form == CONV_APPLY_BWD_WEIGHTS ? apply(g, a, s.x, a->type) : CG_X;
    cg_conv_bwd_weights(g, x, CG_DW, CG_DY, &a->conv);
}

static const struct cg_bn main_bn = {CG_BN_X,   CG_MEAN,  CG_INVSTD, CG_GAMMA, CG_BETA,
                                     CG_DGAMMA, CG_DBETA, CG_EQ_DY,  CG_EQ_X,  CG_EQ_BIAS};
static const struct cg_bn shortcut_bn = {CG_Z,      CG_Z_MEAN,   CG_Z_INVSTD, CG_Z_GAMMA,
                                         CG_Z_BETA, CG_Z_DGAMMA, CG_Z_DBETA,  CG_Z_EQ_DY,
                                         CG_Z_EQ_X, CG_Z_EQ_BIAS};

/* Adds the virtual tensor (x - mean) * invstd * gamma + beta of a batch norm. In the forward pass
 * this tensor was the input of the ReLU, or was added to the shortcut before the ReLU. */
static int recomputed_bn(struct cudnn_graph *g, const struct conv_problem *a, const int64_t x[4],
                         const struct cg_bn *bn)
{
    const enum cg_port channels[] = {bn->mean, bn->invstd, bn->gamma, bn->beta};
    cg_tensor(g, bn->x, a->type, x);
    for (int i = 0; i < 4; i++)
        cg_channels(g, channels[i], DTYPE_F32, a->c);
    int centred = cg_virtual(g, DTYPE_F32, x);
    int normal = cg_virtual(g, DTYPE_F32, x);
    int scaled = cg_virtual(g, DTYPE_F32, x);
    int shifted = cg_virtual(g, DTYPE_F32, x);
    cg_sub(g, bn->x, bn->mean, centred);
    cg_mul(g, centred, bn->invstd, normal);
    cg_mul(g, normal, bn->gamma, scaled);
    cg_add(g, scaled, bn->beta, shifted);
    return shifted;
}

/* Adds the sums of the batch norm's backward pass, and the coefficients that follow from them.
 * Their input is CG_DX, the gradient of the batch norm's result. */
static void sums_of_bn(struct cudnn_graph *g, const struct conv_problem *a, const struct cg_bn *bn)
{
    const enum cg_port channels[] = {bn->dgamma, bn->dbeta, bn->eq_dy, bn->eq_x, bn->eq_bias};
    for (int i = 0; i < 5; i++)
        cg_channels(g, channels[i], DTYPE_F32, a->c);
    cg_bn_bwd_weights(g, CG_DX, bn);
}

static void build_bwd_data_bn(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = add_tensors(g, a, CG_DX, CG_W, CG_DY);
    int gradient = cg_virtual(g, a->type, s.x);
    cg_conv_bwd_data(g, gradient, CG_W, CG_DY, &a->conv);
    if (a->form == CONV_BWD_DATA_ADD_BN || a->form == CONV_BWD_DATA_ADD_TWO_BN) {
        cg_tensor(g, CG_DY2, a->type, s.x);
        int both = cg_virtual(g, DTYPE_F32, s.x);
        cg_add(g, gradient, CG_DY2, both);
        gradient = both;
    }
    bool two = a->form == CONV_BWD_DATA_TWO_BN || a->form == CONV_BWD_DATA_ADD_TWO_BN;
    int before_relu = recomputed_bn(g, a, s.x, &main_bn);
    if (two || a->form == CONV_BWD_DATA_ADD_BN) {
        int shortcut = two ? recomputed_bn(g, a, s.x, &shortcut_bn) : CG_SHORTCUT;
        if (!two)
            cg_tensor(g, CG_SHORTCUT, a->type, s.x);
        int joined = cg_virtual(g, DTYPE_F32, s.x);
        cg_add(g, before_relu, shortcut, joined);
        before_relu = joined;
    }
    cg_relu_bwd(g, gradient, before_relu, CG_DX);
    sums_of_bn(g, a, &main_bn);
    if (two)
        sums_of_bn(g, a, &shortcut_bn);
}

enum status conv_form_graph(const struct cudnn_device *dev, const struct conv_problem *problem,
                            struct cudnn_graph **g)
{
    static void (*const build[CONV_FORM_COUNT])(struct cudnn_graph *,
                                                const struct conv_problem *) = {
        [CONV_FWD] = build_fwd,
        [CONV_BWD_DATA] = build_bwd_data,
        [CONV_BWD_WEIGHTS] = build_bwd_weights,
        [CONV_FWD_BIAS] = build_fwd_bias,
        [CONV_FWD_BIAS_RELU] = build_fwd_bias,
        [CONV_FWD_STATS] = build_fwd,
        [CONV_APPLY_FWD_STATS] = build_fwd,
        [CONV_END_FWD_STATS] = build_fwd,
        [CONV_END_TWO_FWD_STATS] = build_fwd,
        [CONV_APPLY_BWD_WEIGHTS] = build_bwd_weights,
        [CONV_BWD_DATA_BN] = build_bwd_data_bn,
        [CONV_BWD_DATA_ADD_BN] = build_bwd_data_bn,
        [CONV_BWD_DATA_TWO_BN] = build_bwd_data_bn,
        [CONV_BWD_DATA_ADD_TWO_BN] = build_bwd_data_bn,
    };
    enum status st;
    CHECK(cg_open(g));
    cg_device(*g, dev);
    build[problem->form](*g, problem);
    CHECK(cg_finish(*g));
done:
    if (st != STATUS_OK) {
        char text[CONV_TEXT_MAX];
        conv_problem_text(problem, text, sizeof text);
        st = status_context(st, "'%s'", text);
        cg_close(*g);
        *g = NULL;
    }
    return st;
}
