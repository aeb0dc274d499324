/* Inside the fake cuDNN: the contents of descriptors, and the operation graphs that are read from
 * them. The library has four parts: descriptors and their attributes (cudnn_api.cpp), graphs read
 * from descriptors (cudnn_read.cpp), the engines for a graph (cudnn_engines.cpp), and the execution
 * of an engine on the device (cudnn_run.cpp). */
#pragma once

#include "cudnn.h"

#include "kernels/tensor.h"

#include <map>
#include <memory>
#include <string.h>
#include <string>
#include <vector>

/* Thrown if a function of the library must return a status. `text` is the library's last error
 * message. */
struct cudnn_failure {
    cudnnStatus_t status;
    std::string text;
};

static inline void need(bool holds, cudnnStatus_t status, const char *text)
{
    if (!holds)
        throw cudnn_failure{status, text};
}

struct cudnn_node;
typedef std::shared_ptr<cudnn_node> node_ptr;

struct cudnn_attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<char> bytes;
    std::vector<node_ptr> nodes; /* of BACKEND_DESCRIPTOR */
};

/* --- graphs --- */

struct graph_tensor {
    int64_t uid;
    cudnnDataType_t type;
    int64_t dim[4]; /* N C H W (weights: O I KH KW); the layout in memory is NHWC */
    bool is_virtual;

    int64_t count() const
    {
        return dim[0] * dim[1] * dim[2] * dim[3];
    }
    size_t bytes() const
    {
        return (size_t)count() * (type == CUDNN_DATA_FLOAT ? 4 : 2);
    }
};

enum graph_kind {
    GRAPH_FWD,            /* X W Y */
    GRAPH_BWD_DATA,       /* DX W DY */
    GRAPH_BWD_WEIGHTS,    /* X DW DY */
    GRAPH_POINTWISE,      /* X Y, X B Y, or DY X DX for the gradient of ReLU */
    GRAPH_STATS,          /* X SUM SQSUM */
    GRAPH_BN_BWD_WEIGHTS, /* DY X MEAN INVSTD GAMMA, DGAMMA DBETA EQ_DY EQ_X EQ_BIAS */
};

/* One operation. `kind` determines the order of the tensors in `uid`. */
struct graph_operation {
    graph_kind kind;
    cudnnPointwiseMode_t mode;
    int64_t stride[2], pad[2];
    float alpha, beta;
    std::vector<int64_t> uid;
};

struct cudnn_graph_read {
    int device; /* device of the handle that made the graph */
    std::map<int64_t, graph_tensor> tensor;
    std::vector<graph_operation> operation; /* in an order in which they can be executed */

    const graph_operation *convolution() const; /* NULL: there is none */
    bool has(graph_kind kind) const;
    cudnnDataType_t type() const; /* type of the convolution's operands */
    std::string form() const;     /* as the module names it: "apply+fwd+stats" */
};

/* --- engines --- */

/* An implementation of a graph. */
struct cudnn_engine {
    int64_t index;
    bool tensor_cores, deterministic, runtime_compiled;
    bool narrows;   /* stores partial sums in the result's type */
    bool large;     /* needs more workspace than any device has */
    bool lacking;   /* in the results of the heuristics, but has no plan */
    int64_t splits; /* parts into which sums are split; 0: a knob sets the number */
};

struct cudnn_config {
    cudnn_engine engine;
    int64_t splits;
};

/* --- descriptors --- */

/* The contents of a descriptor. A finalized descriptor does not change. */
struct cudnn_node {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    std::map<int, cudnn_attribute> attribute;
    /* Made by finalizing. */
    std::shared_ptr<cudnn_graph_read> graph; /* OPERATIONGRAPH, ENGINE, ENGINECFG, EXECUTION_PLAN */
    cudnn_config config;                     /* ENGINE, ENGINECFG, EXECUTION_PLAN */
    std::vector<node_ptr> results;           /* ENGINEHEUR: ENGINECFGs */

    bool has(cudnnBackendAttributeName_t name) const
    {
        return attribute.count(name) != 0;
    }

    /* Returns an attribute. Throws unless it has `count` elements (-1: any number) of this type. */
    const cudnn_attribute &get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t count = 1) const;

    template <typename T>
    std::vector<T> all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t count = -1) const
    {
        const cudnn_attribute &a = get(name, type, count);
        std::vector<T> v((size_t)a.count);
        if (a.bytes.size() != v.size() * sizeof(T))
            throw cudnn_failure{CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "size of an element"};
        if (!v.empty())
            memcpy(v.data(), a.bytes.data(), a.bytes.size());
        return v;
    }

    int64_t integer(cudnnBackendAttributeName_t name) const
    {
        return all<int64_t>(name, CUDNN_TYPE_INT64, 1)[0];
    }

    /* Enumerations are four bytes. */
    int value(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const
    {
        return all<int>(name, type, 1)[0];
    }

    bool flag(cudnnBackendAttributeName_t name) const
    {
        return all<char>(name, CUDNN_TYPE_BOOLEAN, 1)[0] != 0;
    }

    const node_ptr &node(cudnnBackendAttributeName_t name) const
    {
        return get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR).nodes[0];
    }

    void set_bytes(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void *bytes, size_t size);
    template <typename T>
    void set_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                 const std::vector<T> &v)
    {
        set_bytes(name, type, (int64_t)v.size(), v.data(), v.size() * sizeof(T));
    }
};

struct cudnnContext {
    int device;
    cudaStream_t stream; /* NULL: none was set */
};

/* Each function finalizes one type of descriptor, and throws the errors that the library returns.
 */
void cudnn_finalize_graph(cudnn_node &n);
void cudnn_finalize_engine(cudnn_node &n);
void cudnn_finalize_config(cudnn_node &n);
void cudnn_finalize_heuristics(cudnn_node &n);
void cudnn_finalize_plan(cudnn_node &n);

size_t cudnn_workspace(const cudnn_graph_read &g, const cudnn_config &c);

/* Bytes of the tensors in memory, and FLOPs of the convolution. */
struct cudnn_cost {
    double bytes, flops;
};
cudnn_cost cudnn_cost_of(const cudnn_graph_read &g);

/* Executes a plan. The caller must have opened device memory. `wrong`: all results are too large
 * (AMPSCALE_FAKE_ENGINE). */
void cudnn_run(const cudnn_graph_read &g, const cudnn_config &c,
               const std::map<int64_t, void *> &port, void *workspace, bool wrong);

/* Sets a plan's results to zeros (delays.h). */
void cudnn_clear(const cudnn_graph_read &g, const std::map<int64_t, void *> &port);
