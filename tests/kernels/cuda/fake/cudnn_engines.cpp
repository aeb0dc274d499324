/* The engines of the fake cuDNN, and the results of its heuristics.
 *
 * Each graph has several engines, so that tests cover how an engine is chosen, refused and timed.
 * Some engines split their sums and need workspace for the partial sums. One engine adds the
 * partial sums in any order, and one stores them in the type of the result. One engine needs more
 * workspace than a device has. One engine is in the results of the heuristics, but does not support
 * the graph. One engine must be compiled first. The sizes of the problem determine the first
 * result, so all engines are executed even without timing.
 *
 * Only Ampere and later GPUs have fused forms, so tests also run the code for GPUs without them. In
 * bf16, as in the real cuDNN, no fused form applies or differentiates a batch norm. An engine that
 * adds a bias is compiled at run time. */
#include "cudnn_nodes.h"

#include "delays.h"
#include "fake.h"

namespace
{

enum { SM_AMPERE = 80 };
const size_t SMALL = 4096, TOO_LARGE = (size_t)64 << 30;

const cudnn_engine plain = {.index = 0, .deterministic = true, .splits = 1};
const cudnn_engine plain_split = {.index = 7, .deterministic = true, .splits = 2};
const cudnn_engine cores = {.index = 1, .tensor_cores = true, .deterministic = true, .splits = 1};
const cudnn_engine by_knob = {.index = 2, .tensor_cores = true, .deterministic = true};
const cudnn_engine atomics = {.index = 3, .tensor_cores = true, .splits = 3};
const cudnn_engine narrow = {
    .index = 4, .tensor_cores = true, .deterministic = true, .narrows = true, .splits = 4};
const cudnn_engine lacking = {
    .index = 5, .tensor_cores = true, .deterministic = true, .lacking = true, .splits = 1};
const cudnn_engine compiled = {
    .index = 6, .tensor_cores = true, .deterministic = true, .runtime_compiled = true, .splits = 1};
const cudnn_engine large = {
    .index = 8, .tensor_cores = true, .deterministic = true, .large = true, .splits = 1};

/* The engines of a graph. The heuristics return them in this order, rotated by turn_of() places. */
std::vector<cudnn_engine> engines_of(const cudnn_graph_read &g)
{
    const graph_operation *c = g.convolution();
    if (!c)
        return {};
    int sm = fake_sm(g.device);
    bool newer = sm >= SM_AMPERE, bf16 = g.type() == CUDNN_DATA_BFLOAT16;
    bool applied = g.tensor.at(c->uid[0]).is_virtual && c->kind != GRAPH_BWD_DATA;
    bool biased = c->kind == GRAPH_FWD && g.tensor.at(c->uid[2]).is_virtual;
    bool ends = c->kind == GRAPH_FWD && !biased && g.has(GRAPH_POINTWISE);
    bool batch_norm = applied || ends || g.has(GRAPH_BN_BWD_WEIGHTS);
    bool fused = batch_norm || biased || g.has(GRAPH_STATS);
    if ((fused && !newer) || (bf16 && (!newer || batch_norm)))
        return {};
    if (biased)
        return {compiled};
    if (fused)
        return {lacking, cores, plain};
    std::vector<cudnn_engine> all = {plain, plain_split};
    if (newer || g.type() != CUDNN_DATA_FLOAT)
        all.insert(all.begin(), {cores, by_knob, large, atomics, narrow, lacking, compiled});
    return all;
}

/* The number of places by which the heuristics rotate their results. */
size_t turn_of(const cudnn_graph_read &g)
{
    uint64_t sum = 0;
    for (auto &t : g.tensor)
        for (int64_t d : t.second.dim)
            sum = sum * 31 + (uint64_t)d;
    return (size_t)(sum >> 2);
}

std::vector<int64_t> knob_values(const cudnn_engine &e)
{
    return e.splits ? std::vector<int64_t>{e.splits} : std::vector<int64_t>{2, 5};
}

void note_engine(cudnn_node &n, const cudnn_engine &e)
{
    std::vector<cudnnBackendNumericalNote_t> numerical;
    if (e.tensor_cores)
        numerical.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    if (!e.deterministic)
        numerical.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    if (e.narrows)
        numerical.push_back(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
    n.set_all(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, numerical);
    std::vector<cudnnBackendBehaviorNote_t> behavior;
    if (e.runtime_compiled)
        behavior.push_back(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    n.set_all(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, behavior);
    n.set_all(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector<int64_t>{e.index});
    n.config = {e, 0};
}

node_ptr new_node(cudnnBackendDescriptorType_t type)
{
    node_ptr n = std::make_shared<cudnn_node>();
    n->type = type;
    n->finalized = true;
    return n;
}

node_ptr new_knob(int64_t splits)
{
    node_ptr n = new_node(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    n->set_all(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
               std::vector<cudnnBackendKnobType_t>{CUDNN_KNOB_TYPE_SPLIT_K_SLC});
    n->set_all(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, std::vector<int64_t>{splits});
    return n;
}

node_ptr new_config(const std::shared_ptr<cudnn_graph_read> &g, const cudnn_engine &e,
                    int64_t splits)
{
    node_ptr n = new_node(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    node_ptr engine = new_node(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine->graph = n->graph = g;
    note_engine(*engine, e);
    n->config = {e, splits};
    n->attribute[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {engine}};
    n->attribute[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES] = {
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {new_knob(splits)}};
    return n;
}

/* Whether the graph has operations in addition to its convolution. */
bool is_fused(const cudnn_graph_read &g)
{
    return g.operation.size() > 1;
}

} // namespace

void cudnn_finalize_heuristics(cudnn_node &n)
{
    auto g = n.node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->graph;
    int mode = n.value(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE);
    std::vector<cudnn_engine> all = engines_of(*g);
    fake_host_takes(is_fused(*g) ? 6e-3 : 1.5e-3);
    for (const cudnn_engine &e : all)
        for (int64_t splits : knob_values(e))
            if (mode == CUDNN_HEUR_MODE_A || !e.tensor_cores)
                n.results.push_back(new_config(g, e, splits));
    need(!n.results.empty(), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine for the graph");
    size_t turn = turn_of(*g) % n.results.size();
    std::vector<node_ptr> turned(n.results.begin() + (long)turn, n.results.end());
    turned.insert(turned.end(), n.results.begin(), n.results.begin() + (long)turn);
    n.results = turned;
}

void cudnn_finalize_engine(cudnn_node &n)
{
    n.graph = n.node(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->graph;
    int64_t index = n.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    for (const cudnn_engine &e : engines_of(*n.graph))
        if (e.index == index)
            return note_engine(n, e);
    throw cudnn_failure{CUDNN_STATUS_NOT_SUPPORTED, "the graph has no engine of this number"};
}

void cudnn_finalize_config(cudnn_node &n)
{
    const cudnn_node &engine = *n.node(CUDNN_ATTR_ENGINECFG_ENGINE);
    n.graph = engine.graph;
    n.config = engine.config;
    need(n.has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES), CUDNN_STATUS_BAD_PARAM, "the engine configuration has no knob choice");
    const cudnn_node &knob = *n.node(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    n.config.splits = knob.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    if (knob.value(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE) !=
        CUDNN_KNOB_TYPE_SPLIT_K_SLC)
        throw cudnn_failure{CUDNN_STATUS_NOT_SUPPORTED, "a knob of another type"};
    for (int64_t splits : knob_values(n.config.engine))
        if (splits == n.config.splits)
            return;
    throw cudnn_failure{CUDNN_STATUS_NOT_SUPPORTED, "a knob's value"};
}

size_t cudnn_workspace(const cudnn_graph_read &g, const cudnn_config &c)
{
    if (c.engine.large)
        return TOO_LARGE;
    if (c.splits == 1)
        return SMALL;
    const graph_operation &conv = *g.convolution();
    int result = conv.kind == GRAPH_FWD ? 2 : conv.kind == GRAPH_BWD_DATA ? 0 : 1;
    return (size_t)(c.splits * g.tensor.at(conv.uid[(size_t)result]).count()) * sizeof(float);
}

void cudnn_finalize_plan(cudnn_node &n)
{
    const cudnn_node &config = *n.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    cudnnHandle_t handle =
        n.all<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1)[0];
    n.graph = config.graph;
    n.config = config.config;
    need(handle->device == n.graph->device, CUDNN_STATUS_BAD_PARAM, "the handle belongs to another device");
    need(!n.config.engine.lacking, CUDNN_STATUS_NOT_SUPPORTED, "the engine does not support the graph");
    int64_t workspace = (int64_t)cudnn_workspace(*n.graph, n.config);
    fake_host_takes(0.7e-3);
    n.set_all(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
              std::vector<int64_t>{workspace});
}
