/* Makes execution plans of the engine configurations that the heuristics name. */
#include "kernels/cuda/cudnn_plans.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { CONFIGS_MAX = 64, NOTES_MAX = 32 };

/* cuDNN can plan for a described GPU since version 9.8. Earlier versions plan for present GPUs
 * only. */
#if CUDNN_VERSION >= 90800
#define SET_DEVICE(d, name, dev)                                                                   \
    DESC_SET(d, name##_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &(dev)->props.raw)
#else
#define SET_DEVICE(d, name, dev)                                                                   \
    status_fail(STATUS_UNSUPPORTED, "cuDNN 9.8 or later is needed to plan for an absent GPU")
#endif

/* ---- engines that the user excludes ---- */

static const char variable[] = "AMPSCALE_CUDNN_WITHOUT";

/* Reads a number of at most nine digits at *text, and moves *text to its end. */
static bool take_engine(const char **text, int64_t *engine)
{
    enum { DIGITS = 9 };
    int n = 0;
    *engine = 0;
    while (n < DIGITS && isdigit((unsigned char)**text)) {
        *engine = 10 * *engine + (*(*text)++ - '0');
        n++;
    }
    return n > 0;
}

enum status excluded_engines_read(struct excluded_engines *e)
{
    const char *set = getenv(variable), *at = set;
    *e = (struct excluded_engines){0};
    bool more = set && *set;
    while (more && e->n < EXCLUDED_ENGINES_MAX && take_engine(&at, &e->engine[e->n])) {
        e->n++;
        more = *at == ',';
        at += more;
    }
    if (!more && (!at || *at == '\0'))
        return STATUS_OK;
    *e = (struct excluded_engines){0};
    return status_fail(STATUS_USAGE,
                       "%s is '%s'; give the numbers of at most %d engines of cuDNN, separated by "
                       "commas, as in 62,63",
                       variable, set, EXCLUDED_ENGINES_MAX);
}

/* ---- properties that an engine reports ---- */

struct engine {
    struct cudnn_desc desc;
    bool runtime_compiled;
    bool deterministic;
    bool tensor_cores;
    bool narrows; /* converts inputs to a smaller type, or sums in a smaller type */
};

static enum status read_notes(struct engine *e)
{
    cudnnBackendBehaviorNote_t behavior[NOTES_MAX];
    cudnnBackendNumericalNote_t numerical[NOTES_MAX];
    int64_t n;
    e->deterministic = true;
    TRY(DESC_GET(&e->desc, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE, NOTES_MAX, &n, behavior));
    for (int64_t i = 0; i < n && i < NOTES_MAX; i++)
        e->runtime_compiled |= behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    TRY(DESC_GET(&e->desc, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, NOTES_MAX, &n, numerical));
    for (int64_t i = 0; i < n && i < NOTES_MAX; i++) {
        e->deterministic &= numerical[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        e->tensor_cores |= numerical[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        e->narrows |= numerical[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                      numerical[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    }
    return STATUS_OK;
}

/* Reads the engine of a configuration. `e` owns the engine's descriptor even after a failure. */
static enum status engine_read(const struct cudnn_desc *config, struct engine *e)
{
    int64_t n;
    *e = (struct engine){0};
    TRY(DESC_CREATE(&e->desc, ENGINE));
    TRY(DESC_GET(config, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &n, &e->desc.raw));
    return read_notes(e);
}

static bool engine_allowed(const struct engine *e, const struct plan_limits *limits)
{
    return !e->narrows && (e->deterministic || !limits->deterministic) &&
           (!e->tensor_cores || !limits->full_fp32) &&
           e->runtime_compiled == limits->runtime_compiled;
}

/* ---- choices ---- */

static enum status read_knobs(const struct cudnn_desc *knob, int64_t n, struct plan_choice *choice)
{
    for (int64_t i = 0; i < n; i++) {
        cudnnBackendKnobType_t type;
        int64_t value, count;
        TRY(DESC_GET(&knob[i], KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, &count, &type));
        TRY(DESC_GET(&knob[i], KNOB_CHOICE_KNOB_VALUE, INT64, 1, &count, &value));
        choice->knob[choice->n_knobs++] = (struct plan_knob){(int64_t)type, value};
    }
    return STATUS_OK;
}

static enum status choice_read(const struct cudnn_desc *config, const struct engine *e,
                               struct plan_choice *choice)
{
    enum status st = STATUS_OK;
    struct cudnn_desc knob[PLAN_KNOBS_MAX] = {{0}};
    cudnnBackendDescriptor_t raw[PLAN_KNOBS_MAX];
    int64_t n;
    *choice = (struct plan_choice){0};
    CHECK(DESC_GET(&e->desc, ENGINE_GLOBAL_INDEX, INT64, 1, &n, &choice->engine));
    for (int i = 0; i < PLAN_KNOBS_MAX; i++) {
        CHECK(DESC_CREATE(&knob[i], KNOB_CHOICE));
        raw[i] = knob[i].raw;
    }
    /* Requests the knobs as well as their number: if only the number is requested, the library
     * returns 0. */
    CHECK(DESC_GET(config, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, PLAN_KNOBS_MAX, &n, raw));
    if (n > PLAN_KNOBS_MAX)
        CHECK(status_fail(STATUS_UNSUPPORTED, "cuDNN's engine %lld has too many knobs: %lld",
                          (long long)choice->engine, (long long)n));
    CHECK(read_knobs(knob, n, choice));
done:
    for (int i = 0; i < PLAN_KNOBS_MAX; i++)
        cudnn_desc_destroy(&knob[i]);
    return st;
}

/* ---- plans ---- */

void plan_close(struct cudnn_plan *plan)
{
    cudnn_desc_destroy(&plan->desc);
    *plan = (struct cudnn_plan){0};
}

static enum status plan_finish(const struct cudnn_device *dev, const struct cudnn_desc *config,
                               const struct engine *e, const struct plan_choice *choice,
                               struct cudnn_plan *plan)
{
    enum status st;
    int64_t n, workspace = 0;
    *plan = (struct cudnn_plan){.choice = *choice,
                                .runtime_compiled = e->runtime_compiled,
                                .deterministic = e->deterministic,
                                .tensor_cores = e->tensor_cores};
    CHECK(DESC_CREATE(&plan->desc, EXECUTION_PLAN));
    CHECK(DESC_SET(&plan->desc, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &config->raw));
    if (dev->handle)
        CHECK(DESC_SET(&plan->desc, EXECUTION_PLAN_HANDLE, HANDLE, 1, &dev->handle));
    else
        CHECK(SET_DEVICE(&plan->desc, EXECUTION_PLAN, dev));
    CHECK(cudnn_desc_finalize(&plan->desc));
    CHECK(DESC_GET(&plan->desc, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, &n, &workspace));
    plan->workspace = (size_t)workspace;
done:
    if (st != STATUS_OK)
        plan_close(plan);
    return st;
}

static enum status check_workspace(const struct cudnn_plan *plan, const struct plan_limits *limits)
{
    if (plan->workspace <= limits->workspace)
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED,
                       "the plan needs a workspace of %zu bytes; at most %zu are allowed",
                       plan->workspace, limits->workspace);
}

static bool list_has(const struct plan_list *list, const struct plan_choice *choice)
{
    for (int i = 0; i < list->n; i++)
        if (plan_choice_same(&list->plan[i].choice, choice))
            return true;
    return false;
}

/* Whether other engines may be tried after the failure `st`. Stores the failure's message in
 * list->why. If no engine works, this message says why, for example because a part of the library
 * is missing. */
static bool may_continue(struct plan_list *list, enum status st)
{
    if (st != STATUS_UNSUPPORTED && st != STATUS_LIBRARY)
        return false;
    snprintf(list->why, sizeof list->why, "%s", status_message());
    return true;
}

/* Adds the plan of one configuration from the heuristics. If a configuration has no plan, that is
 * not a failure, because the heuristics also name engines that do not support the graph. */
static enum status list_add(struct plan_list *list, const struct cudnn_device *dev,
                            const struct cudnn_desc *config, const struct plan_limits *limits)
{
    enum status st;
    struct engine e;
    struct plan_choice choice;
    struct cudnn_plan plan;
    CHECK(engine_read(config, &e));
    if (!engine_allowed(&e, limits)) {
        list->runtime_compiled += e.runtime_compiled && !limits->runtime_compiled;
        goto done;
    }
    CHECK(choice_read(config, &e, &choice));
    if (excluded_engines_has(limits->excluded, choice.engine)) {
        list->excluded++;
        goto done;
    }
    if (list_has(list, &choice))
        goto done;
    CHECK(plan_finish(dev, config, &e, &choice, &plan));
    if (check_workspace(&plan, limits) == STATUS_OK) {
        list->plan[list->n++] = plan;
    } else {
        list->too_large++;
        plan_close(&plan);
    }
done:
    cudnn_desc_destroy(&e.desc);
    return st == STATUS_OK || may_continue(list, st) ? STATUS_OK : st;
}

/* ---- heuristics ---- */

/* Makes plans of the configurations from one mode of the heuristics, until the list has enough
 * plans. */
static enum status add_results(struct plan_list *list, const struct cudnn_device *dev,
                               const struct cudnn_desc *heuristic, const struct plan_limits *limits)
{
    enum status st = STATUS_OK;
    struct cudnn_desc config[CONFIGS_MAX] = {{0}};
    cudnnBackendDescriptor_t raw[CONFIGS_MAX];
    int64_t n;
    CHECK(DESC_GET(heuristic, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, 0, &n, NULL));
    if (n > CONFIGS_MAX)
        n = CONFIGS_MAX;
    for (int64_t i = 0; i < n; i++) {
        CHECK(DESC_CREATE(&config[i], ENGINECFG));
        raw[i] = config[i].raw;
    }
    if (n > 0)
        CHECK(DESC_GET(heuristic, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, n, &n, raw));
    list->configs += (int)n;
    for (int64_t i = 0; i < n && list->n < limits->plans; i++)
        CHECK(list_add(list, dev, &config[i], limits));
done:
    for (int i = 0; i < CONFIGS_MAX; i++)
        cudnn_desc_destroy(&config[i]);
    return st;
}

/* Queries one mode of the heuristics. If the mode has no configuration for the graph, finalizing
 * the descriptor fails. Another mode may still have a configuration. */
static enum status ask(struct plan_list *list, const struct cudnn_device *dev,
                       const struct cudnn_graph *g, cudnnBackendHeurMode_t mode,
                       const struct plan_limits *limits)
{
    enum status st;
    struct cudnn_desc h;
    CHECK(DESC_CREATE(&h, ENGINEHEUR));
    CHECK(DESC_SET(&h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &cg_graph(g)->raw));
    CHECK(DESC_SET(&h, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode));
    if (!dev->handle)
        CHECK(SET_DEVICE(&h, ENGINEHEUR, dev));
    CHECK(cudnn_desc_finalize(&h));
    CHECK(add_results(list, dev, &h, limits));
done:
    cudnn_desc_destroy(&h);
    return st == STATUS_UNSUPPORTED && may_continue(list, st) ? STATUS_OK : st;
}

enum status plan_list_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                           const struct plan_limits *limits, struct plan_list *list)
{
    enum status st;
    *list = (struct plan_list){0};
    if (limits->plans < 1 || limits->plans > PLANS_MAX)
        return status_fail(STATUS_INVALID, "cannot make %d cuDNN plans: the number must be 1 to %d",
                           limits->plans, PLANS_MAX);
    CHECK(ask(list, dev, g, CUDNN_HEUR_MODE_A, limits));
    if (list->n < limits->plans)
        CHECK(ask(list, dev, g, CUDNN_HEUR_MODE_FALLBACK, limits));
    if (list->n == 0)
        st = status_fail(
            STATUS_UNSUPPORTED,
            "cuDNN has no plan on GPU '%s': of %d configurations, %d need compilation at "
            "run time, %d need too much workspace and %d are of excluded engines%s%s",
            dev->name, list->configs, list->runtime_compiled, list->too_large, list->excluded,
            list->why[0] ? "; " : "", list->why);
done:
    if (st != STATUS_OK) {
        for (int i = 0; i < list->n; i++)
            plan_close(&list->plan[i]);
        list->n = 0;
    }
    return st;
}

void plan_list_close(struct plan_list *list)
{
    for (int i = 0; i < list->n; i++)
        plan_close(&list->plan[i]);
    *list = (struct plan_list){0};
}

/* ---- the plan of an earlier choice ---- */

static enum status engine_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                               int64_t index, struct engine *e)
{
    *e = (struct engine){0};
    TRY(DESC_CREATE(&e->desc, ENGINE));
    TRY(DESC_SET(&e->desc, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &cg_graph(g)->raw));
    TRY(DESC_SET(&e->desc, ENGINE_GLOBAL_INDEX, INT64, 1, &index));
    if (!dev->handle)
        TRY(SET_DEVICE(&e->desc, ENGINE, dev));
    TRY(cudnn_desc_finalize(&e->desc));
    return read_notes(e);
}

static enum status knob_make(struct cudnn_desc *d, const struct plan_knob *knob)
{
    const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)knob->type;
    TRY(DESC_CREATE(d, KNOB_CHOICE));
    TRY(DESC_SET(d, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, &type));
    TRY(DESC_SET(d, KNOB_CHOICE_KNOB_VALUE, INT64, 1, &knob->value));
    return cudnn_desc_finalize(d);
}

static enum status config_make(struct cudnn_desc *config, const struct engine *e,
                               const struct plan_choice *choice)
{
    enum status st;
    struct cudnn_desc knob[PLAN_KNOBS_MAX] = {{0}};
    cudnnBackendDescriptor_t raw[PLAN_KNOBS_MAX];
    CHECK(DESC_CREATE(config, ENGINECFG));
    CHECK(DESC_SET(config, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &e->desc.raw));
    for (int i = 0; i < choice->n_knobs; i++) {
        CHECK(knob_make(&knob[i], &choice->knob[i]));
        raw[i] = knob[i].raw;
    }
    if (choice->n_knobs > 0)
        CHECK(DESC_SET(config, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, choice->n_knobs, raw));
    CHECK(cudnn_desc_finalize(config));
done:
    for (int i = 0; i < PLAN_KNOBS_MAX; i++)
        cudnn_desc_destroy(&knob[i]);
    return st;
}

enum status plan_make(const struct cudnn_device *dev, const struct cudnn_graph *g,
                      const struct plan_choice *choice, const struct plan_limits *limits,
                      struct cudnn_plan *plan)
{
    enum status st;
    struct engine e = {0};
    struct cudnn_desc config = {0};
    *plan = (struct cudnn_plan){0};
    CHECK(engine_make(dev, g, choice->engine, &e));
    if (!engine_allowed(&e, limits) || excluded_engines_has(limits->excluded, choice->engine))
        CHECK(status_fail(STATUS_UNSUPPORTED, "the plan limits exclude cuDNN's engine %lld",
                          (long long)choice->engine));
    CHECK(config_make(&config, &e, choice));
    CHECK(plan_finish(dev, &config, &e, choice, plan));
    CHECK(check_workspace(plan, limits));
done:
    if (st != STATUS_OK)
        plan_close(plan);
    cudnn_desc_destroy(&config);
    cudnn_desc_destroy(&e.desc);
    return st;
}
