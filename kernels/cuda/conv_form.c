/* Makes the graphs of convolutions and of the operations fused with them. */
#include "kernels/cuda/conv_plan.h"

/* The shapes of one problem. */
struct shapes {
    int64_t x[4]; /* of X and DX */
    int64_t w[4];
    int64_t y[4];
};

static struct shapes shapes_of(const struct conv_problem *a)
{
    return (struct shapes){.x = {a->n, a->c, a->h, a->w},
                           .w = {a->k, a->c / a->conv.groups, a->r, a->s},
                           .y = {a->n, a->k, a->p, a->q}};
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

static void build_fwd(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = shapes_of(a);
    bool stats = a->form == CONV_FWD_STATS || a->form == CONV_APPLY_FWD_STATS;
    cg_tensor(g, CG_X, a->type, s.x);
    cg_tensor(g, CG_W, a->type, s.w);
    cg_tensor(g, CG_Y, a->type, s.y);
    int x = a->form == CONV_APPLY_FWD_STATS ? apply(g, a, s.x, DTYPE_F32) : CG_X;
    cg_conv_fwd(g, x, CG_W, CG_Y, &a->conv);
    if (stats) {
        cg_channels(g, CG_SUM, DTYPE_F32, a->k);
        cg_channels(g, CG_SQSUM, DTYPE_F32, a->k);
        cg_gen_stats(g, CG_Y, CG_SUM, CG_SQSUM);
    }
}

static void build_fwd_bias(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = shapes_of(a);
    cg_tensor(g, CG_X, a->type, s.x);
    cg_tensor(g, CG_W, a->type, s.w);
    cg_tensor(g, CG_Y, a->type, s.y);
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
    struct shapes s = shapes_of(a);
    cg_tensor(g, CG_DX, a->type, s.x);
    cg_tensor(g, CG_W, a->type, s.w);
    cg_tensor(g, CG_DY, a->type, s.y);
    cg_conv_bwd_data(g, CG_DX, CG_W, CG_DY, &a->conv);
}

static void build_bwd_weights(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = shapes_of(a);
    cg_tensor(g, CG_X, a->type, s.x);
    cg_tensor(g, CG_DW, a->type, s.w);
    cg_tensor(g, CG_DY, a->type, s.y);
    int x = a->form == CONV_APPLY_BWD_WEIGHTS ? apply(g, a, s.x, a->type) : CG_X;
    cg_conv_bwd_weights(g, x, CG_DW, CG_DY, &a->conv);
}

/* Adds the virtual tensor (BN_X - MEAN) * INVSTD * GAMMA + BETA. In the forward pass this was the
 * input of the ReLU, or of the sum with the shortcut. */
static int recomputed_bn(struct cudnn_graph *g, const struct conv_problem *a, const int64_t x[4])
{
    cg_tensor(g, CG_BN_X, a->type, x);
    for (int port = CG_MEAN; port <= CG_BETA; port++)
        cg_channels(g, (enum cg_port)port, DTYPE_F32, a->c);
    int centred = cg_virtual(g, DTYPE_F32, x);
    int normal = cg_virtual(g, DTYPE_F32, x);
    int scaled = cg_virtual(g, DTYPE_F32, x);
    int shifted = cg_virtual(g, DTYPE_F32, x);
    cg_sub(g, CG_BN_X, CG_MEAN, centred);
    cg_mul(g, centred, CG_INVSTD, normal);
    cg_mul(g, normal, CG_GAMMA, scaled);
    cg_add(g, scaled, CG_BETA, shifted);
    return shifted;
}

static void build_bwd_data_bn(struct cudnn_graph *g, const struct conv_problem *a)
{
    struct shapes s = shapes_of(a);
    cg_tensor(g, CG_DX, a->type, s.x);
    cg_tensor(g, CG_W, a->type, s.w);
    cg_tensor(g, CG_DY, a->type, s.y);
    int gradient = cg_virtual(g, a->type, s.x);
    cg_conv_bwd_data(g, gradient, CG_W, CG_DY, &a->conv);
    int before_relu = recomputed_bn(g, a, s.x);
    if (a->form == CONV_BWD_DATA_ADD_BN) {
        cg_tensor(g, CG_SHORTCUT, a->type, s.x);
        cg_tensor(g, CG_DY2, a->type, s.x);
        int joined = cg_virtual(g, DTYPE_F32, s.x);
        int both = cg_virtual(g, DTYPE_F32, s.x);
        cg_add(g, before_relu, CG_SHORTCUT, joined);
        cg_add(g, gradient, CG_DY2, both);
        before_relu = joined;
        gradient = both;
    }
    cg_relu_bwd(g, gradient, before_relu, CG_DX);
    for (int port = CG_DGAMMA; port <= CG_EQ_BIAS; port++)
        cg_channels(g, (enum cg_port)port, DTYPE_F32, a->c);
    cg_bn_bwd_weights(g, CG_DX);
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
        [CONV_APPLY_BWD_WEIGHTS] = build_bwd_weights,
        [CONV_BWD_DATA_BN] = build_bwd_data_bn,
        [CONV_BWD_DATA_ADD_BN] = build_bwd_data_bn,
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
