/* Reads operation graphs from the descriptors that kernels/cuda/cudnn_graph.c makes. */
#include "cudnn_nodes.h"

namespace
{

typedef std::vector<cudnnBackendAttributeName_t> names;

cudnn_failure unsupported(const std::string &what)
{
    return {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, what};
}

/* The attributes of the tensors that an operation reads and writes, in the order of
 * graph_operation.uid. */
struct conv_names {
    cudnnBackendDescriptorType_t type;
    graph_kind kind;
    cudnnBackendAttributeName_t conv, alpha, beta;
    names tensors;
};
#define CONV(of, attr) CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##attr
#define CONVOLUTION(descriptor, kind, of, a, b, c)                                                 \
    {                                                                                              \
        CUDNN_BACKEND_OPERATION_CONVOLUTION_##descriptor##_DESCRIPTOR, kind, CONV(of, CONV_DESC),  \
            CONV(of, ALPHA), CONV(of, BETA), {CONV(of, a), CONV(of, b), CONV(of, c)}               \
    }
const conv_names CONVOLUTIONS[] = {
    CONVOLUTION(FORWARD, GRAPH_FWD, FORWARD, X, W, Y),
    CONVOLUTION(BACKWARD_DATA, GRAPH_BWD_DATA, BWD_DATA, DX, W, DY),
    CONVOLUTION(BACKWARD_FILTER, GRAPH_BWD_WEIGHTS, BWD_FILTER, X, DW, DY),
};
#define POINTWISE(name) CUDNN_ATTR_OPERATION_POINTWISE_##name##DESC
const names UNARY = {POINTWISE(X), POINTWISE(Y)};
const names BINARY = {POINTWISE(X), POINTWISE(B), POINTWISE(Y)};
const names BACKWARD = {POINTWISE(DY), POINTWISE(X), POINTWISE(DX)};
const names STATS = {CUDNN_ATTR_OPERATION_GENSTATS_XDESC, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
                     CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC};
#define BN(name) CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_##name
const names BN_BWD = {BN(DY_DESC),       BN(X_DESC),         BN(MEAN_DESC),      BN(INVSTD_DESC),
                      BN(BN_SCALE_DESC), BN(DBN_SCALE_DESC), BN(DBN_BIAS_DESC),
                      BN(EQ_DY_SCALE_DESC), BN(EQ_X_SCALE_DESC), BN(EQ_BIAS)};

/* Accepts only the layout and alignment that the module uses: NHWC, aligned to 16 bytes. */
graph_tensor read_tensor(const cudnn_node &n)
{
    graph_tensor t;
    auto dim = n.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4);
    auto stride = n.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4);
    t.uid = n.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t.type = (cudnnDataType_t)n.value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
    t.is_virtual = n.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    for (size_t i = 0; i < 4; i++)
        t.dim[i] = dim[i];
    const int64_t nhwc[4] = {dim[1] * dim[2] * dim[3], 1, dim[1] * dim[3], dim[1]};
    for (size_t i = 0; i < 4; i++)
        need(stride[i] == nhwc[i] && dim[i] >= 1, CUDNN_STATUS_NOT_SUPPORTED, "the tensor is not NHWC");
    int64_t align = n.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    need(align == 16, CUDNN_STATUS_NOT_SUPPORTED, "the tensor is not aligned to 16 bytes");
    return t;
}

void read_convolution(const cudnn_node &n, const conv_names &of, graph_operation *o)
{
    const cudnn_node &c = *n.node(of.conv);
    o->kind = of.kind;
    auto pad = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2);
    auto post = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2);
    auto dilation = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2);
    auto stride = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2);
    if (c.value(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE) !=
            CUDNN_CROSS_CORRELATION ||
        c.value(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE) != CUDNN_DATA_FLOAT ||
        c.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2 || post != pad || dilation[0] != 1 ||
        dilation[1] != 1)
        throw unsupported("the module uses no such convolution");
    for (size_t i = 0; i < 2; i++) {
        o->stride[i] = stride[i];
        o->pad[i] = pad[i];
    }
    o->alpha = n.all<float>(of.alpha, CUDNN_TYPE_FLOAT, 1)[0];
    o->beta = n.all<float>(of.beta, CUDNN_TYPE_FLOAT, 1)[0];
}

const names &read_pointwise(const cudnn_node &n, graph_operation *o)
{
    const cudnn_node &p = *n.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    if (p.value(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE) != CUDNN_DATA_FLOAT)
        throw unsupported("pointwise arithmetic must be fp32");
    o->mode = (cudnnPointwiseMode_t)p.value(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
    if (o->mode == CUDNN_POINTWISE_RELU_FWD)
        return UNARY;
    return o->mode == CUDNN_POINTWISE_RELU_BWD ? BACKWARD : BINARY;
}

/* Reads an operation. Returns the names of its tensors' attributes. */
const names &read_kind(const cudnn_node &n, graph_operation *o)
{
    for (const conv_names &of : CONVOLUTIONS)
        if (n.type == of.type) {
            read_convolution(n, of, o);
            return of.tensors;
        }
    switch (n.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        o->kind = GRAPH_POINTWISE;
        return read_pointwise(n, o);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
        o->kind = GRAPH_STATS;
        if (n.value(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE) !=
            CUDNN_GENSTATS_SUM_SQSUM)
            throw unsupported("other statistics");
        return STATS;
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
        o->kind = GRAPH_BN_BWD_WEIGHTS;
        return BN_BWD;
    default: /* also BN_FINALIZE_STATISTICS: the module computes it with its own kernel */
        throw unsupported("no engine has this operation");
    }
}

graph_operation read_operation(const cudnn_node &n, cudnn_graph_read *g)
{
    graph_operation o = {};
    for (cudnnBackendAttributeName_t name : read_kind(n, &o)) {
        graph_tensor t = read_tensor(*n.node(name));
        g->tensor[t.uid] = t;
        o.uid.push_back(t.uid);
    }
    return o;
}

} // namespace

const graph_operation *cudnn_graph_read::convolution() const
{
    for (auto &o : operation)
        if (o.kind == GRAPH_FWD || o.kind == GRAPH_BWD_DATA || o.kind == GRAPH_BWD_WEIGHTS)
            return &o;
    return NULL;
}

bool cudnn_graph_read::has(graph_kind kind) const
{
    for (auto &o : operation)
        if (o.kind == kind)
            return true;
    return false;
}

/* The type of W, or the type of DY for a weight gradient. */
cudnnDataType_t cudnn_graph_read::type() const
{
    const graph_operation *c = convolution();
    return tensor.at(c->uid[c->kind == GRAPH_BWD_WEIGHTS ? 2 : 1]).type;
}

std::string cudnn_graph_read::form() const
{
    const graph_operation *c = convolution();
    bool past = false, adds = false, relu = false;
    int scalings = 0, bns = 0;
    for (auto &o : operation) {
        bool point = o.kind == GRAPH_POINTWISE;
        past = past || &o == c;
        scalings += !past && point && o.mode == CUDNN_POINTWISE_MUL;
        adds |= past && point && o.mode == CUDNN_POINTWISE_ADD && o.uid[0] == c->uid[0];
        relu |= past && point && o.mode == CUDNN_POINTWISE_RELU_FWD;
        bns += o.kind == GRAPH_BN_BWD_WEIGHTS;
    }
    bool virtual_x = tensor.at(c->uid[0]).is_virtual;
    std::string name = scalings == 0 ? "" : scalings == 2 ? "2" : virtual_x ? "" : "add+";
    name += scalings ? "apply+" : "";
    if (c->kind == GRAPH_BWD_WEIGHTS)
        return name + "wgrad";
    if (c->kind == GRAPH_BWD_DATA)
        return std::string("dgrad") + (adds ? "+add" : "") + (bns ? "+drelu" : "") +
               (bns == 0 ? "" : bns == 2 ? "+2bn" : "+bn");
    return name + "fwd" + (tensor.at(c->uid[2]).is_virtual ? "+bias" : "") +
           (relu ? "+relu" : "") + (has(GRAPH_STATS) ? "+stats" : "");
}

cudnn_cost cudnn_cost_of(const cudnn_graph_read &g)
{
    const graph_operation &o = *g.convolution();
    const graph_tensor &w = g.tensor.at(o.uid[1]), &y = g.tensor.at(o.uid[2]);
    cudnn_cost cost = {0, 2 * (double)y.count() * (double)(w.count() / w.dim[0])};
    for (auto &t : g.tensor)
        if (!t.second.is_virtual)
            cost.bytes += (double)t.second.bytes();
    return cost;
}

void cudnn_finalize_graph(cudnn_node &n)
{
    need(n.has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE), CUDNN_STATUS_NOT_SUPPORTED, "a graph without a handle");
    n.graph = std::make_shared<cudnn_graph_read>();
    n.graph->device =
        n.all<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1)[0]->device;
    for (auto &o : n.get(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, -1).nodes)
        n.graph->operation.push_back(read_operation(*o, n.graph.get()));
}
