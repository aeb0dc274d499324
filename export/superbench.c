/* SuperBench's results-summary.jsonl: a flat object for each node, its keys the metrics'
 * names.
 *
 * A run becomes the benchmark model-benchmarks:<family>/pytorch-<network>, which is what SuperBench
 * calls the same work, so that its rules and baselines fit; the numbers are this suite's own.
 * Metrics: <precision>_train_throughput   images/s of one device, median over the steps
 *   <precision>_train_step_time    milliseconds, median over the steps
 *   return_code                    0: the run ended in order
 * A node that bears several runs of one benchmark has their number before the metric. Ranks leave
 * every step together: a run over several nodes says the same of each. */
#include "export/formats.h"
#include "results/nodes.h"
#include "results/summary.h"

#include <ctype.h>
#include <string.h>

/* SuperBench has a name for each type, not for Apex's levels. */
static const char *precision_name(const struct run *run)
{
    const char *precision = run_config_text(run, "precision", "fp32");
    if (strcmp(precision, "O0") == 0)
        return "fp32";
    if (strcmp(precision, "amp") == 0 || precision[0] == 'O')
        return "fp16";
    return precision;
}

/* Takes over `value`. */
static bool set(json_t *object, const char *benchmark, const char *metric, json_t *value)
{
    char key[512];
    snprintf(key, sizeof key, "%s/%s", benchmark, metric);
    return json_object_set_new(object, key, value) == 0;
}

static bool set_run(json_t *node, const char *benchmark, const struct run *run,
                    const json_t *summary)
{
    char metric[128];
    double devices = (double)run_config_count(run, "world_size", 1) *
                     (double)run_config_count(run, "devices_per_rank", 1);
    const json_t *rate = json_object_get(json_object_get(summary, "images_per_s"), "median");
    const json_t *step = json_object_get(json_object_get(summary, "step_s"), "total");
    bool ok = set(node, benchmark, "return_code", json_integer(run->summary ? 0 : 1));
    snprintf(metric, sizeof metric, "%s_train_throughput", precision_name(run));
    if (rate && devices > 0)
        ok = set(node, benchmark, metric, json_real(json_number_value(rate) / devices)) && ok;
    snprintf(metric, sizeof metric, "%s_train_step_time", precision_name(run));
    if (step)
        ok = set(node, benchmark, metric, json_real(json_number_value(step) * 1000)) && ok;
    return ok;
}

/* "model-benchmarks:resnet/pytorch-resnet50", and the number of the run where it is not the only
 * one of its kind. */
static void benchmark_name(char out[256], const struct run *const *run, int n, int i)
{
    char family[64] = "", of[256];
    const char *arch = run_config_text(run[i], "arch", "unknown");
    int before = 0, all = 0;
    for (size_t k = 0; k + 1 < sizeof family && isalpha((unsigned char)arch[k]); k++)
        family[k] = arch[k];
    for (int j = 0; j < n; j++) {
        if (strcmp(arch, run_config_text(run[j], "arch", "unknown")) != 0 ||
            strcmp(precision_name(run[i]), precision_name(run[j])) != 0)
            continue;
        before += j < i;
        all++;
    }
    snprintf(of, sizeof of, "model-benchmarks:%s/pytorch-%.100s", family, arch);
    if (all > 1)
        snprintf(out, 256, "%.240s/%d", of, before);
    else
        snprintf(out, 256, "%s", of);
}

/* The object of a node, made if need be; NULL without memory. */
static json_t *node_of(json_t *nodes, const char *host)
{
    json_t *node = json_object_get(nodes, host);
    if (node)
        return node;
    json_object_set_new(nodes, host, json_pack("{s:s}", "node", host));
    return json_object_get(nodes, host);
}

static enum status add_run(json_t *nodes, const char *benchmark, const struct run *run)
{
    json_t *summary = json_object();
    if (!summary)
        return status_fail(STATUS_OOM, "no memory to export '%s'", run->dir);
    enum status st = summary_add(run, summary);
    int64_t ranks = run_attempt_ranks(run, run->resumes);
    for (int64_t r = 0; st == STATUS_OK && r < (ranks ? ranks : 1); r++) {
        const char *host = ranks ? run_rank_host(run, run->resumes, r)
                                 : export_host_text(run, "hostname", "unknown");
        json_t *node = node_of(nodes, host);
        if (!node || !set_run(node, benchmark, run, summary))
            st = status_fail(STATUS_OOM, "no memory to export '%s'", run->dir);
    }
    json_decref(summary);
    return st;
}

enum status export_superbench(const struct run *const *run, int n, const struct export_options *o)
{
    enum status st = STATUS_OK;
    json_t *nodes = json_object();
    if (!nodes)
        return status_fail(STATUS_OOM, "no memory for the nodes of %d runs", n);
    for (int i = 0; i < n; i++) {
        char benchmark[256];
        benchmark_name(benchmark, run, n, i);
        CHECK(add_run(nodes, benchmark, run[i]));
    }
    CHECK(nodes_write(nodes, o->out));
    export_wrote(o, o->out);
done:
    json_decref(nodes);
    return st;
}
