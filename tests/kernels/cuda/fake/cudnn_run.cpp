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

struct shape {
    int64_t n, c, h, w, k, r, s, p, q, groups, cg, kg;

    int64_t filter() const
    {
        return r * s;
    }
    int64_t x_pixels() const
    {
        return n * h * w;
    }
    int64_t y_pixels() const
    {
        return n * p * q;
    }
    /* The number of a weight; weights are O H W I. */
    int64_t w_at(int64_t o, int64_t f, int64_t channel) const
    {
        return (o * filter() + f) * cg + channel;
    }
};

shape shape_of(const execution &e, const graph_operation &o)
{
    const int64_t *x = e.tensor(o.uid[0]).dim, *w = e.tensor(o.uid[1]).dim;
    const int64_t *y = e.tensor(o.uid[2]).dim;
    int64_t groups = x[1] / w[1];
    return {x[0], x[1], x[2], x[3], w[0], w[2], w[3], y[2], y[3], groups, w[1], w[0] / groups};
}

/* For each pixel of the filter, the pixels of X that it meets at the pixels of Y, or the pixels of Y
 * that it meets at the pixels of X. -1: none. */
struct meetings {
    std::vector<int64_t> of_y, of_x;

    meetings(const shape &s, const graph_operation &o)
        : of_y((size_t)(s.filter() * s.y_pixels()), -1),
          of_x((size_t)(s.filter() * s.x_pixels()), -1)
    {
        for (int64_t f = 0; f < s.filter(); f++)
            for (int64_t y = 0; y < s.y_pixels(); y++) {
                int64_t row = y / s.q % s.p * o.stride[0] - o.pad[0] + f / s.s;
                int64_t col = y % s.q * o.stride[1] - o.pad[1] + f % s.s;
                if (row < 0 || row >= s.h || col < 0 || col >= s.w)
                    continue;
                int64_t x = (y / s.q / s.p * s.h + row) * s.w + col;
                of_y[(size_t)(f * s.y_pixels() + y)] = x;
                of_x[(size_t)(f * s.x_pixels() + x)] = y;
            }
    }
};

/* A convolution as matrix products, one for each group. An element is the sum of products of a row
 * of A and a row of B. A row of A has `parts` parts of `run` neighbours. */
struct matrices {
    int64_t groups, rows, columns, parts, run;
};

/* a_at(group, row, part) and b_at(group, column, k) return numbers of elements, -1 for zeros;
 * to(group, row, column) returns the number of an element of the result. */
template <typename A, typename B, typename To>
floats multiply(const execution &e, const matrices &m, const floats &a, A a_at, const floats &b,
                B b_at, To to)
{
    int64_t length = m.parts * m.run;
    floats result((size_t)(m.groups * m.rows * m.columns)), sums((size_t)m.columns);
    floats turned((size_t)(m.columns * length));
    const product_numbers all(e.unit, (int64_t)a.size(), a.data());
    const product_numbers zeros(e.unit, length, floats((size_t)length).data());
    product_numbers row = zeros;
    for (int64_t g = 0; g < m.groups; g++) {
        for (int64_t i = 0; i < m.columns * length; i++)
            turned[(size_t)i] = b[(size_t)b_at(g, i / length, i % length)];
        product_numbers numbers(e.unit, m.columns * length, turned.data());
        const product_rows many(length, m.columns, numbers, 0);
        for (int64_t i = 0; i < m.rows; i++) {
            for (int64_t k = 0; k < m.parts; k++) {
                int64_t at = a_at(g, i, k);
                row.copy(k * m.run, at < 0 ? zeros : all, at < 0 ? 0 : at, m.run);
            }
            product_sums(e.unit, row, many, sums.data());
            for (int64_t j = 0; j < m.columns; j++)
                result[(size_t)to(g, i, j)] = sums[(size_t)j];
        }
    }
    return result;
}

int64_t channel_at(int64_t pixel, int64_t channels, int64_t first)
{
    return pixel < 0 ? -1 : pixel * channels + first;
}

/* Each pixel of the result is a sum over the pixels that the filter's pixels meet. */
template <typename W>
floats convolve_pixels(const execution &e, const matrices &m, const std::vector<int64_t> &meet,
                       const floats &a, const floats &w, W w_at)
{
    return multiply(
        e, m, a,
        [&](int64_t g, int64_t i, int64_t f) {
            return channel_at(meet[(size_t)(f * m.rows + i)], m.groups * m.run, g * m.run);
        },
        w, w_at, [&](int64_t g, int64_t i, int64_t c) { return (i * m.groups + g) * m.columns + c; });
}

floats convolve_forward(const execution &e, const shape &s, const meetings &meet, const floats &x,
                        const floats &w)
{
    return convolve_pixels(
        e, {s.groups, s.y_pixels(), s.kg, s.filter(), s.cg}, meet.of_y, x, w,
        [&](int64_t g, int64_t k, int64_t i) { return s.w_at(g * s.kg + k, 0, i); });
}

floats convolve_data(const execution &e, const shape &s, const meetings &meet, const floats &w,
                     const floats &dy)
{
    return convolve_pixels(
        e, {s.groups, s.x_pixels(), s.cg, s.filter(), s.kg}, meet.of_x, dy, w,
        [&](int64_t g, int64_t c, int64_t i) {
            return s.w_at(g * s.kg + i % s.kg, i / s.kg, c);
        });
}

floats convolve_weights(const execution &e, const shape &s, const meetings &meet, const floats &x,
                        const floats &dy)
{
    const matrices m = {s.groups, s.filter() * s.cg, s.kg, s.y_pixels(), 1};
    return multiply(
        e, m, x,
        [&](int64_t g, int64_t i, int64_t y) {
            return channel_at(meet.of_y[(size_t)(i / s.cg * m.parts + y)], s.c,
                              g * s.cg + i % s.cg);
        },
        dy, [&](int64_t g, int64_t k, int64_t y) { return y * s.k + g * s.kg + k; },
        [&](int64_t g, int64_t i, int64_t k) { return s.w_at(g * s.kg + k, 0, i); });
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
    meetings meet(s, o);
    floats result = o.kind == GRAPH_FWD
                        ? convolve_forward(e, s, meet, operand(e, o.uid[0]), operand(e, o.uid[1]))
                    : o.kind == GRAPH_BWD_DATA
                        ? convolve_data(e, s, meet, operand(e, o.uid[1]), operand(e, o.uid[2]))
                        : convolve_weights(e, s, meet, operand(e, o.uid[0]), operand(e, o.uid[2]));
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
