/* Executes an engine of the fake cuDNN. The operations of a graph run one after another. Each
 * tensor is rounded to its type as soon as it is computed. */
#include "cudnn_nodes.h"

#include "arrays.h"
#include "delays.h"
#include "fake.h"
#include "products.h"

#include <stdlib.h>

namespace
{

typedef std::vector<float> floats;

enum dtype dtype_of(cudnnDataType_t type)
{
    return type == CUDNN_DATA_HALF       ? DTYPE_F16
           : type == CUDNN_DATA_BFLOAT16 ? DTYPE_BF16
                                         : DTYPE_F32;
}

/* The values of an execution, by the unique ids of tensors. */
struct execution {
    const cudnn_graph_read *graph;
    const std::map<int64_t, void *> *port;
    product_unit unit;
    std::map<int64_t, floats> value;

    const graph_tensor &tensor(int64_t uid) const
    {
        return graph->tensor.at(uid);
    }

    const floats &read(int64_t uid)
    {
        floats &v = value[uid];
        const graph_tensor &t = tensor(uid);
        if (!v.empty())
            return v;
        v.resize((size_t)t.count());
        for (int64_t i = 0; i < t.count(); i++)
            v[(size_t)i] = float_load(dtype_of(t.type), port->at(uid), i);
        return v;
    }

    void write(int64_t uid, floats v)
    {
        const graph_tensor &t = tensor(uid);
        for (int64_t i = 0; i < t.count(); i++) {
            v[(size_t)i] = dtype_round(dtype_of(t.type), v[(size_t)i]);
            if (!t.is_virtual)
                float_store(dtype_of(t.type), port->at(uid), i, v[(size_t)i]);
        }
        value[uid] = std::move(v);
    }
};

/* --- convolution --- */

/* The three convolutions as matrix products. Each element of the result is the product of a row of
 * A and a row of B in one group. Both rows have `length` elements. The rows of A are patches of X
 * around a pixel of Y (FWD), patches of DY around a pixel of X (BWD_DATA), or the channels of DY
 * (BWD_WEIGHTS). */
struct shape {
    int64_t n, c, h, w, k, r, s, p, q, groups, cg, kg;
    int64_t stride[2], pad[2];

    int64_t x_at(int64_t i, int64_t y, int64_t x) const
    {
        return ((i * h + y) * w + x) * c;
    }
    int64_t y_at(int64_t i, int64_t y, int64_t x) const
    {
        return ((i * p + y) * q + x) * k;
    }
    int64_t w_at(int64_t o, int64_t y, int64_t x) const
    {
        return ((o * r + y) * s + x) * cg;
    }
};

shape shape_of(const execution &e, const graph_operation &o)
{
    const int64_t *x = e.tensor(o.uid[0]).dim, *w = e.tensor(o.uid[1]).dim;
    const int64_t *y = e.tensor(o.uid[2]).dim;
    shape s = {x[0], x[1], x[2], x[3], w[0], w[2], w[3], y[2], y[3], x[1] / w[1], w[1], 0, {}, {}};
    s.kg = s.k / s.groups;
    memcpy(s.stride, o.stride, sizeof s.stride);
    memcpy(s.pad, o.pad, sizeof s.pad);
    return s;
}

/* Returns the rows of each group as operands. `rows` holds them group by group. */
std::vector<product_rows> rows_by_group(const execution &e, const shape &s, int64_t length,
                                        int64_t count, const floats &rows)
{
    std::vector<product_rows> all;
    product_numbers numbers(e.unit, (int64_t)rows.size(), rows.data());
    for (int64_t g = 0; g < s.groups; g++)
        all.emplace_back(length, count, numbers, g * count);
    return all;
}

/* A row of an operand, which is gathered from a tensor. */
struct gathered {
    product_numbers all, row;
    const product_numbers zeros;

    gathered(const execution &e, const floats &tensor, int64_t length)
        : all(e.unit, (int64_t)tensor.size(), tensor.data()),
          row(e.unit, length, floats((size_t)length).data()), zeros(row)
    {
    }

    /* Copies n numbers. If the pixel is outside of the image, they are zeros. */
    void copy(int64_t to, bool inside, int64_t from, int64_t n)
    {
        const product_numbers &source = inside ? all : zeros;
        size_t at = inside ? (size_t)from : 0;
        memcpy(&row.value[(size_t)to], &source.value[at], (size_t)n * sizeof row.value[0]);
        memcpy(&row.exponent[(size_t)to], &source.exponent[at], (size_t)n * sizeof row.exponent[0]);
    }
};

/* Gathers the patch of X around pixel (p, q) of Y. */
void patch_of_x(const shape &s, int64_t n, int64_t p, int64_t q, int64_t g, gathered *x)
{
    for (int64_t f = 0; f < s.r * s.s; f++) {
        int64_t h = p * s.stride[0] - s.pad[0] + f / s.s;
        int64_t v = q * s.stride[1] - s.pad[1] + f % s.s;
        bool inside = h >= 0 && h < s.h && v >= 0 && v < s.w;
        x->copy(f * s.cg, inside, s.x_at(n, h, v) + g * s.cg, s.cg);
    }
}

floats convolve_forward(const execution &e, const shape &s, const floats &x, const floats &w)
{
    int64_t length = s.r * s.s * s.cg;
    floats y((size_t)(s.n * s.p * s.q * s.k));
    std::vector<product_rows> weights = rows_by_group(e, s, length, s.kg, w);
    gathered patch(e, x, length);
    for (int64_t i = 0; i < s.n * s.p * s.q * s.groups; i++) {
        int64_t g = i % s.groups, at = i / s.groups;
        int64_t n = at / s.q / s.p, p = at / s.q % s.p, q = at % s.q;
        patch_of_x(s, n, p, q, g, &patch);
        product_sums(e.unit, patch.row, weights[(size_t)g],
                     &y[(size_t)(s.y_at(n, p, q) + g * s.kg)]);
    }
    return y;
}

/* Returns the weights in the order in which the data gradient reads them: (C, R, S, K / groups). */
floats turned_weights(const shape &s, const floats &w)
{
    floats t(w.size());
    for (int64_t k = 0; k < s.k; k++)
        for (int64_t f = 0; f < s.r * s.s; f++)
            for (int64_t c = 0; c < s.cg; c++)
                t[(size_t)(((k / s.kg * s.cg + c) * s.r * s.s + f) * s.kg + k % s.kg)] =
                    w[(size_t)(s.w_at(k, 0, f) + c)];
    return t;
}

/* Gathers the patch of DY around pixel (h, v) of X. */
void patch_of_dy(const shape &s, int64_t n, int64_t h, int64_t v, int64_t g, gathered *dy)
{
    for (int64_t f = 0; f < s.r * s.s; f++) {
        int64_t p = h + s.pad[0] - f / s.s, q = v + s.pad[1] - f % s.s;
        bool inside = p >= 0 && q >= 0 && p % s.stride[0] == 0 && q % s.stride[1] == 0 &&
                      p / s.stride[0] < s.p && q / s.stride[1] < s.q;
        dy->copy(f * s.kg, inside, s.y_at(n, p / s.stride[0], q / s.stride[1]) + g * s.kg, s.kg);
    }
}

floats convolve_data(const execution &e, const shape &s, const floats &w, const floats &dy)
{
    int64_t length = s.r * s.s * s.kg;
    floats dx((size_t)(s.n * s.h * s.w * s.c));
    std::vector<product_rows> weights = rows_by_group(e, s, length, s.cg, turned_weights(s, w));
    gathered patch(e, dy, length);
    for (int64_t i = 0; i < s.n * s.h * s.w * s.groups; i++) {
        int64_t g = i % s.groups, at = i / s.groups;
        int64_t n = at / s.w / s.h, h = at / s.w % s.h, v = at % s.w;
        patch_of_dy(s, n, h, v, g, &patch);
        product_sums(e.unit, patch.row, weights[(size_t)g],
                     &dx[(size_t)(s.x_at(n, h, v) + g * s.cg)]);
    }
    return dx;
}

/* Gathers the pixels of channel c of X that weight f is multiplied with, one for each pixel of Y.
 */
void column_of_x(const shape &s, int64_t f, int64_t c, gathered *x)
{
    size_t to = 0;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t p = 0; p < s.p; p++) {
            int64_t h = p * s.stride[0] - s.pad[0] + f / s.s;
            for (int64_t q = 0; q < s.q; q++, to++) {
                int64_t v = q * s.stride[1] - s.pad[1] + f % s.s;
                bool inside = h >= 0 && h < s.h && v >= 0 && v < s.w;
                size_t from = inside ? (size_t)(s.x_at(n, h, v) + c) : 0;
                x->row.value[to] = inside ? x->all.value[from] : 0;
                x->row.exponent[to] = inside ? x->all.exponent[from] : x->zeros.exponent[0];
            }
        }
}

floats convolve_weights(const execution &e, const shape &s, const floats &x, const floats &dy)
{
    int64_t pixels = s.n * s.p * s.q;
    floats dw((size_t)(s.k * s.r * s.s * s.cg)), sums((size_t)s.kg);
    floats turned((size_t)(s.k * pixels)); /* DY in the order (K, N, P, Q) */
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t k = 0; k < s.k; k++)
            turned[(size_t)(k * pixels + i)] = dy[(size_t)(i * s.k + k)];
    std::vector<product_rows> channels = rows_by_group(e, s, pixels, s.kg, turned);
    gathered column(e, x, pixels);
    for (int64_t i = 0; i < s.r * s.s * s.c; i++) {
        int64_t c = i % s.c, f = i / s.c, g = c / s.cg;
        column_of_x(s, f, c, &column);
        product_sums(e.unit, column.row, channels[(size_t)g], sums.data());
        for (int64_t k = 0; k < s.kg; k++)
            dw[(size_t)(s.w_at(g * s.kg + k, 0, f) + c % s.cg)] = sums[(size_t)k];
    }
    return dw;
}

/* Returns a tensor as operands of tensor cores: its values are rounded to the operands' type. */
floats operand(execution &e, int64_t uid)
{
    floats v = e.read(uid);
    product_operands(&e.unit, (int64_t)v.size(), v.data());
    return v;
}

int64_t convolution_result(const graph_operation &o)
{
    return o.uid[o.kind == GRAPH_FWD ? 2 : o.kind == GRAPH_BWD_DATA ? 0 : 1];
}

void run_convolution(execution &e, const graph_operation &o)
{
    shape s = shape_of(e, o);
    int64_t out = convolution_result(o);
    floats result = o.kind == GRAPH_FWD
                        ? convolve_forward(e, s, operand(e, o.uid[0]), operand(e, o.uid[1]))
                    : o.kind == GRAPH_BWD_DATA
                        ? convolve_data(e, s, operand(e, o.uid[1]), operand(e, o.uid[2]))
                        : convolve_weights(e, s, operand(e, o.uid[0]), operand(e, o.uid[2]));
    floats before = o.beta != 0 ? e.read(out) : floats();
    for (size_t i = 0; i < result.size(); i++)
        result[i] = o.alpha * result[i] + (o.beta != 0 ? o.beta * before[i] : 0);
    e.write(out, std::move(result));
}

/* --- the other operations --- */

float pointwise(cudnnPointwiseMode_t mode, float a, float b)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return a + b;
    case CUDNN_POINTWISE_SUB:
        return a - b;
    case CUDNN_POINTWISE_MUL:
        return a * b;
    case CUDNN_POINTWISE_RELU_FWD:
        return a < 0 ? 0 : a; /* a NaN stays a NaN */
    default:                  /* RELU_BWD: a is the gradient, b the ReLU's input */
        return b > 0 ? a : 0;
    }
}

/* The second operand has as many values as the first, or one value per channel. */
void run_pointwise(execution &e, const graph_operation &o)
{
    const floats &a = e.read(o.uid[0]);
    bool unary = o.mode == CUDNN_POINTWISE_RELU_FWD;
    const floats &b = unary ? a : e.read(o.uid[1]);
    size_t n = (size_t)e.tensor(o.uid.back()).count();
    floats y(n);
    if (a.size() != n || (b.size() != n && (int64_t)b.size() != e.tensor(o.uid[0]).dim[1]))
        abort();
    for (size_t i = 0; i < n; i++)
        y[i] = pointwise(o.mode, a[i], b[i % b.size()]);
    e.write(o.uid.back(), std::move(y));
}

/* Computes the sums of values and of squares per channel, from the stored values. */
void run_stats(execution &e, const graph_operation &o)
{
    const floats &x = e.read(o.uid[0]);
    size_t channels = (size_t)e.tensor(o.uid[0]).dim[1];
    std::vector<double> sum(channels), square(channels);
    for (size_t i = 0; i < x.size(); i++) {
        sum[i % channels] += (double)x[i];
        square[i % channels] += (double)x[i] * (double)x[i];
    }
    e.write(o.uid[1], floats(sum.begin(), sum.end()));
    e.write(o.uid[2], floats(square.begin(), square.end()));
}

void run_bn_bwd(execution &e, const graph_operation &o)
{
    const floats &dy = e.read(o.uid[0]), &x = e.read(o.uid[1]), &mean = e.read(o.uid[2]);
    const floats &invstd = e.read(o.uid[3]), &gamma = e.read(o.uid[4]);
    size_t channels = mean.size();
    std::vector<double> sum(channels), scaled(channels);
    for (size_t i = 0; i < x.size(); i++) {
        size_t c = i % channels;
        sum[c] += (double)dy[i];
        scaled[c] += (double)dy[i] * ((double)x[i] - (double)mean[c]) * (double)invstd[c];
    }
    floats of_dy(channels), of_x(channels), bias(channels);
    double rows = (double)(x.size() / channels);
    for (size_t c = 0; c < channels; c++) {
        double a = (double)gamma[c] * (double)invstd[c];
        double b = -a * (double)invstd[c] * scaled[c] / rows;
        of_dy[c] = (float)a;
        of_x[c] = (float)b;
        bias[c] = (float)(-a * sum[c] / rows - b * (double)mean[c]);
    }
    e.write(o.uid[5], floats(scaled.begin(), scaled.end()));
    e.write(o.uid[6], floats(sum.begin(), sum.end()));
    e.write(o.uid[7], std::move(of_dy));
    e.write(o.uid[8], std::move(of_x));
    e.write(o.uid[9], std::move(bias));
}

std::vector<int64_t> results(const graph_operation &o)
{
    switch (o.kind) {
    case GRAPH_POINTWISE:
        return {o.uid.back()};
    case GRAPH_STATS:
        return {o.uid[1], o.uid[2]};
    case GRAPH_BN_BWD_WEIGHTS:
        return std::vector<int64_t>(o.uid.begin() + 5, o.uid.end());
    default:
        return {convolution_result(o)};
    }
}

/* Multiplies all results by 1.5. The operations of the graph have used the right values. */
void enlarge_results(execution &e)
{
    for (const graph_operation &o : e.graph->operation)
        for (int64_t uid : results(o)) {
            floats v = e.read(uid);
            for (float &x : v)
                x *= 1.5f;
            e.write(uid, std::move(v));
        }
}

} // namespace

void cudnn_clear(const cudnn_graph_read &g, const std::map<int64_t, void *> &port)
{
    for (const graph_operation &o : g.operation)
        for (int64_t uid : results(o))
            if (port.count(uid))
                fake_clear(port.at(uid), g.tensor.at(uid).bytes());
}

void cudnn_run(const cudnn_graph_read &g, const cudnn_config &c,
               const std::map<int64_t, void *> &port, void *workspace, bool wrong)
{
    static bool odd; /* every second execution adds the parts in reverse order */
    execution e = {&g, &port, {}, {}};
    enum dtype type = dtype_of(g.type());
    odd = !odd;
    e.unit = {.tensor_cores = c.engine.tensor_cores,
              .sm = fake_sm(g.device),
              .operand = type == DTYPE_F32 && c.engine.tensor_cores ? DTYPE_TF32 : type,
              .partial = c.engine.narrows ? type : DTYPE_F32,
              .splits = c.splits,
              .backwards = !c.engine.deterministic && odd};
    if (!fake_delayed()) /* callers must not rely on zeros */
        memset(workspace, 0xFF, cudnn_workspace(g, c));
    for (const graph_operation &o : g.operation)
        switch (o.kind) {
        case GRAPH_POINTWISE:
            run_pointwise(e, o);
            break;
        case GRAPH_STATS:
            run_stats(e, o);
            break;
        case GRAPH_BN_BWD_WEIGHTS:
            run_bn_bwd(e, o);
            break;
        default:
            run_convolution(e, o);
        }
    if (wrong)
        enlarge_results(e);
}
