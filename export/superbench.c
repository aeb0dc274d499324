/* SuperBench's results-summary.jsonl: a flat object for each node, with the metrics' names as keys.
 *
 * A run becomes the benchmark model-benchmarks:<family>/ampscale-<network>. SuperBench's own model
 * benchmark has the name .../pytorch-<network>. That benchmark runs another program, and its rules
 * and baselines must not be applied to these numbers; therefore the names differ. The metrics are:
 *
 *   <precision>_train_throughput   images/s of one device, median over the steps
 *   <precision>_train_step_time    milliseconds, median over the steps
 *   return_code                    0: the run is complete; 1: it is not
 *
 * If several runs have the same network and precision, they are numbered from 0, and the
 * benchmark's name ends in "/" and the run's number. Ranks end every step together, so the nodes of
 * a run have the same values. */
#include "base/json.h"
#include "export/formats.h"
#include "results/nodes.h"
#include "results/summary.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* Returns the name of the run's precision in SuperBench. SuperBench has names for types but not for
 * the levels of Apex, so a level is replaced by its type. */
static const char *precision_name(const struct run *run)
{
    const char *precision = run_config_text(run, "precision", "fp32");
    if (strcmp(precision, "O0") == 0)
        return "fp32";
    if (strcmp(precision, "amp") == 0 || precision[0] == 'O')
        return "fp16";
    return precision;
}

/* Adds the key "<benchmark>/<precision>_<metric>", or "<benchmark>/<metric>" if the precision is
 * "". Takes ownership of `value`. */
static enum status put_metric(json_t *node, const char *benchmark, const char *precision,
                              const char *metric, json_t *value)
{
    char key[512];
    snprintf(key, sizeof key, "%s/%s%s%s", benchmark, precision, *precision ? "_" : "", metric);
    return json_put(node, key, value);
}

static enum status put_run(json_t *node, const char *benchmark, const struct run *run,
                           const json_t *summary)
{
    const char *precision = precision_name(run);
    double devices = (double)run_config_count(run, "world_size", 1) *
                     (double)run_config_count(run, "devices_per_rank", 1);
    double rate = json_number_at(json_object_get(summary, "images_per_s"), "median");
    double step = json_number_at(json_object_get(summary, "step_s"), "total");
    TRY(put_metric(node, benchmark, "", "return_code", json_integer(run->summary ? 0 : 1)));
    if (isfinite(rate) && devices > 0)
        TRY(put_metric(node, benchmark, precision, "train_throughput", json_real(rate / devices)));
    if (isfinite(step))
        TRY(put_metric(node, benchmark, precision, "train_step_time", json_real(step * 1000)));
    return STATUS_OK;
}

/* Makes the name of a run's benchmark: "model-benchmarks:resnet/ampscale-resnet50", followed by
 * "/0", "/1" ... if several runs have the same network and precision. */
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
    snprintf(of, sizeof of, "model-benchmarks:%s/ampscale-%.100s", family, arch);
    if (all > 1)
        snprintf(out, 256, "%.240s/%d", of, before);
    else
        snprintf(out, 256, "%s", of);
}

static enum status add_run(json_t *nodes, const char *benchmark, const struct run *run)
{
    json_t *summary;
    TRY(json_new(&summary, "{}"));
    enum status st = summary_add(run, summary);
    int64_t ranks = run_attempt_ranks(run, run->resumes);
    for (int64_t r = 0; st == STATUS_OK && r < (ranks ? ranks : 1); r++) {
        const char *host =
            ranks ? run_rank_host(run, run->resumes, r)
                  : json_text_or(json_object_get(run->info, "host"), "hostname", "unknown");
        if (!json_object_get(nodes, host))
            CHECK(json_put(nodes, host, json_pack("{s:s}", "node", host)));
        st = put_run(json_object_get(nodes, host), benchmark, run, summary);
    }
done:
    json_decref(summary);
    return st;
}

enum status export_superbench(const struct run *const *run, int n, const struct export_options *o)
{
    enum status st = STATUS_OK;
    json_t *nodes;
    TRY(json_new(&nodes, "{}"));
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
