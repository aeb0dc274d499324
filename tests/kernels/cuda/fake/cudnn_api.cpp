/* The functions of the fake cuDNN: handles, descriptors and their attributes. */
#include "cudnn_nodes.h"

#include "delays.h"
#include "fake.h"
#include "inject.h"

#include <set>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace
{

const size_t VERSION = 91900;

/* A descriptor refers to its node by a pointer. Heuristics can therefore replace the nodes of
 * descriptors that the caller has already created. */
struct descriptor {
    node_ptr node;
};
std::set<descriptor *> descriptors;
std::set<cudnnHandle_t> handles;
thread_local std::string last_error;

/* Bytes of an element. */
size_t size_of(cudnnBackendAttributeType_t type)
{
    bool byte = type == CUDNN_TYPE_BOOLEAN || type == CUDNN_TYPE_CHAR;
    bool wide = type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR;
    return byte ? 1 : wide ? 8 : 4;
}

descriptor *find(const void *raw)
{
    descriptor *d = (descriptor *)raw;
    need(descriptors.count(d), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such descriptor");
    return d;
}

/* Calls `body` and turns its exceptions into a status. */
template <typename Body> cudnnStatus_t guarded(const char *call, cudnnStatus_t injected, Body body)
{
    fake_hold hold;
    last_error.clear();
    try {
        if (fake_fails(call))
            throw cudnn_failure{injected, std::string(call) + " was to fail"};
        body();
        return CUDNN_STATUS_SUCCESS;
    } catch (const cudnn_failure &f) {
        last_error = f.text;
        return f.status;
    }
}

void need_device()
{
    need(!fake_broken(), CUDNN_STATUS_EXECUTION_FAILED, "an illegal memory access was encountered");
    need(!fake_lost(fake_device()), CUDNN_STATUS_EXECUTION_FAILED, "uncorrectable ECC error encountered");
}

/* The attributes of other types of nodes are checked when a node is used. */
void finalize(cudnn_node &n)
{
    static const std::map<int, void (*)(cudnn_node &)> types = {
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, cudnn_finalize_graph},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, cudnn_finalize_engine},
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, cudnn_finalize_config},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, cudnn_finalize_heuristics},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, cudnn_finalize_plan},
    };
    need(n.type != CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED, "the fake plans only for its own devices");
    if (n.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        need_device();
    if (types.count(n.type))
        types.at(n.type)(n);
    n.finalized = true;
}

/* Puts `nodes` into the caller's descriptors. */
void hand_over(const std::vector<node_ptr> &nodes, int64_t wanted, int64_t *count, void *elements)
{
    cudnnBackendDescriptor_t *raw = (cudnnBackendDescriptor_t *)elements;
    *count = (int64_t)nodes.size();
    for (int64_t i = 0; i < wanted && i < *count; i++) {
        descriptor *d = find(raw[i]);
        need(d->node->type == nodes[(size_t)i]->type && !d->node->finalized, CUDNN_STATUS_BAD_PARAM, "the descriptor cannot be written");
        d->node = nodes[(size_t)i];
    }
}

void set(cudnn_node &n, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t count, const void *elements)
{
    need(!n.finalized, CUDNN_STATUS_BAD_PARAM, "the descriptor was finalized before");
    need(elements && count >= 1, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an attribute without elements");
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        n.set_bytes(name, type, count, elements, (size_t)count * size_of(type));
        return;
    }
    cudnn_attribute a = {type, count, {}, {}};
    const cudnnBackendDescriptor_t *raw = (const cudnnBackendDescriptor_t *)elements;
    for (int64_t i = 0; i < count; i++) {
        a.nodes.push_back(find(raw[i])->node);
        need(a.nodes.back()->finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not finalized");
    }
    n.attribute[name] = a;
}

void get(const cudnn_node &n, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t wanted, int64_t *count, void *elements)
{
    need(n.finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the descriptor is not finalized");
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return hand_over(n.results, wanted, count, elements);
    if (!n.has(name)) { /* an empty list */
        *count = 0;
        return;
    }
    const cudnn_attribute &a = n.get(name, type, -1);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return hand_over(a.nodes, wanted, count, elements);
    *count = a.count;
    int64_t given = wanted < a.count ? wanted : a.count;
    if (given > 0)
        memcpy(elements, a.bytes.data(), (size_t)given * size_of(type));
}

/* The first execution of an engine takes longer, because its kernels must be loaded. */
void load_kernels(int64_t engine)
{
    static std::set<int64_t> loaded;
    const double LOAD = 30e-3;
    if (loaded.insert(engine).second)
        fake_host_takes(LOAD);
}

/* An engine that splits its sums takes longer, so the engines have different times. */
double seconds_of(const cudnn_graph_read &g, const cudnn_config &c, const cudnn_cost &cost)
{
    enum fake_rate rate = !c.engine.tensor_cores         ? RATE_F32
                          : g.type() == CUDNN_DATA_FLOAT ? RATE_TF32
                                                         : RATE_NARROW;
    double parts = (double)(c.splits - 1) * 0.1;
    return fake_takes(cost.bytes, cost.flops, rate) * (1 + parts);
}

/* The failures and crashes that AMPSCALE_FAKE_ENGINE requests. */
void fail_engine(enum engine_fault fault)
{
    if (fault == ENGINE_CRASH)
        raise(SIGSEGV);
    if (fault == ENGINE_STICKY)
        fake_break();
    need(fault != ENGINE_STICKY && fault != ENGINE_FAILS, CUDNN_STATUS_EXECUTION_FAILED, "AMPSCALE_FAKE_ENGINE");
}

/* Returns whether the engine is to hang. */
bool execute(cudnnHandle_t handle, const cudnn_node &plan, const cudnn_node &pack)
{
    need_device();
    if (!handles.count(handle) || !plan.finalized || !pack.finalized ||
        plan.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        pack.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        throw cudnn_failure{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "handle, plan or pack"};
    need(handle->device == plan.graph->device && handle->device == fake_device(), CUDNN_STATUS_BAD_PARAM, "the plan was made for another device");
    need(handle->stream, CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the handle has no stream");
    auto uid = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64);
    auto at = pack.all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                               (int64_t)uid.size());
    void *workspace =
        pack.all<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1)[0];
    std::map<int64_t, void *> port;
    for (size_t i = 0; i < uid.size(); i++)
        port[uid[i]] = at[i];
    for (auto &t : plan.graph->tensor) {
        bool placed = port.count(t.first) && port[t.first];
        need(t.second.is_virtual || placed, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor has no memory");
        need(!(placed && (uintptr_t)port[t.first] % 16 != 0), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor's memory");
    }
    if (cudnn_workspace(*plan.graph, plan.config) > 0 &&
        (!workspace || (uintptr_t)workspace % 16 != 0))
        throw cudnn_failure{CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace"};
    auto graph = plan.graph;
    cudnn_config config = plan.config;
    enum engine_fault fault = fake_engine_fault(config.engine.index, graph->form());
    fail_engine(fault);
    if (fault == ENGINE_HANG)
        return true;
    bool wrong = fault == ENGINE_WRONG;
    for (auto &t : graph->tensor)
        if (!t.second.is_virtual)
            fake_know(port[t.first], t.second.bytes());
    load_kernels(config.engine.index);
    fake_profiled_library();
    cudnn_cost cost = cudnn_cost_of(*graph);
    bool leave_out = fake_too_large(cost.bytes, cost.flops);
    cudaError_t e = fake_submit_call(
        handle->stream, FAKE_CUDNN,
        [=] {
            if (leave_out)
                cudnn_clear(*graph, port);
            else
                cudnn_run(*graph, config, port, workspace, wrong);
        },
        seconds_of(*graph, config, cost));
    if (e != cudaSuccess)
        throw cudnn_failure{CUDNN_STATUS_EXECUTION_FAILED, cudaGetErrorString(e)};
    return false;
}

} // namespace

const cudnn_attribute &cudnn_node::get(cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t wanted, int64_t count) const
{
    auto a = attribute.find(name);
    std::string what = "attribute " + std::to_string((int)name);
    if (a == attribute.end())
        throw cudnn_failure{CUDNN_STATUS_BAD_PARAM, what + " is not set"};
    if (a->second.type != wanted || (count >= 0 && a->second.count != count))
        throw cudnn_failure{CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, what};
    return a->second;
}

void cudnn_node::set_bytes(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t of,
                           int64_t count, const void *bytes, size_t size)
{
    const char *b = (const char *)bytes;
    attribute[name] = {of, count, std::vector<char>(b, b + size), {}};
}

size_t cudnnGetVersion(void)
{
    const char *set = getenv("AMPSCALE_FAKE_GPU");
    return set && strcmp(set, "volta") == 0 ? 91002 : VERSION;
}

/* 0: the fake needs no compiler, and there is none of this version. */
size_t cudnnGetCudartVersion(void)
{
    return 0;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    static const char *const kinds[] = {"CUDNN_STATUS_SUCCESS",       "CUDNN_STATUS_NOT_INITIALIZED",
                                        "CUDNN_STATUS_BAD_PARAM",     "CUDNN_STATUS_NOT_SUPPORTED",
                                        "CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_EXECUTION_FAILED"};
    return kinds[(int)status / 1000];
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    snprintf(message, max_size, "%s", last_error.c_str());
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = NULL;
    return guarded("cudnnCreate", CUDNN_STATUS_NOT_INITIALIZED, [=] {
        need_device();
        fake_host_takes(137e-3);
        *handle = new cudnnContext{fake_device(), NULL};
        handles.insert(*handle);
    });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    handles.erase(handle);
    delete handle;
    return guarded("cudnnDestroy", CUDNN_STATUS_INTERNAL_ERROR, [] {});
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    return guarded("cudnnSetStream", CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, [=] {
        need(handles.count(handle), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such handle");
        handle->stream = stream;
    });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *raw)
{
    return guarded("cudnnBackendCreateDescriptor", CUDNN_STATUS_ALLOC_FAILED, [=] {
        descriptor *d = new descriptor{std::make_shared<cudnn_node>()};
        d->node->type = type;
        descriptors.insert(d);
        *raw = d;
    });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw)
{
    fake_hold hold;
    descriptor *d = (descriptor *)raw;
    if (descriptors.erase(d))
        delete d;
    return guarded("cudnnBackendDestroyDescriptor", CUDNN_STATUS_INTERNAL_ERROR, [] {});
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw)
{
    return guarded("cudnnBackendFinalize", CUDNN_STATUS_INTERNAL_ERROR,
                   [=] { finalize(*find(raw)->node); });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *elements)
{
    return guarded("cudnnBackendSetAttribute", CUDNN_STATUS_BAD_PARAM,
                   [=] { set(*find(raw)->node, name, type, count, elements); });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *elements)
{
    return guarded("cudnnBackendGetAttribute", CUDNN_STATUS_INTERNAL_ERROR,
                   [=] { get(*find(raw)->node, name, type, wanted, count, elements); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    bool hangs = false;
    cudnnStatus_t status = guarded("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED, [&] {
        hangs = execute(handle, *find(plan)->node, *find(pack)->node);
    });
    while (hangs) /* without the fake's lock: other threads continue */
        pause();
    return status;
}
