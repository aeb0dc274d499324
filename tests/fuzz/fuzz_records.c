/* Fuzzes the readers of records that other commands than train write: acceptances, analyses,
 * histories, peaks, synthetic data sets, plans of studies, and measurements of throughput that are
 * continued. */
#include "accept/accept_judge.h"
#include "bench/roofline.h"
#include "bench/throughput.h"
#include "compare/history.h"
#include "input/synth.h"
#include "predict/prediction.h"
#include "results/analysis.h"
#include "tests/fuzz/fuzz.h"
#include "watch/watch.h"

#include <stdio.h>

enum record { ACCEPT, ANALYSIS, HISTORY, PEAK, DATASET, PLAN, THROUGHPUT };

static const char *const names[] = {[ACCEPT] = "accept.json",         [ANALYSIS] = "analysis.json",
                                    [HISTORY] = "history.jsonl",      [PEAK] = "peak.json",
                                    [DATASET] = "dataset.json",       [PLAN] = "plan.json",
                                    [THROUGHPUT] = "throughput.json", NULL};

static void accept_record(void)
{
    struct accept_report r;
    if (!fuzz_ok(accept_report_load(fuzz_dir(), &r)))
        return;
    for (int i = 0; i < r.n_checks; i++)
        for (int m = 0; m < r.check[i].n_metrics; m++)
            accept_metric_median(&r.check[i].metric[m]);
    json_decref(accept_report_json(&r));
    accept_report_free(&r);
}

static void analysis_record(void)
{
    struct analysis a;
    struct source source;
    if (!fuzz_ok(analysis_read(fuzz_dir(), &a)))
        return;
    for (int64_t i = 0; i < a.n_series; i++)
        fuzz_ok(source_of_analysis(&a, i, &source));
    analysis_free(&a);
}

static void plan_record(void)
{
    const struct watch_options options = {.width = 80};
    struct watch *w;
    if (!fuzz_ok(watch_open(fuzz_dir(), &w)))
        return;
    FILE *out = fopen("/dev/null", "we");
    if (out) {
        fuzz_ok(watch_view(w, &options, out));
        fclose(out);
    }
    watch_close(w);
}

static void throughput_record(void)
{
    const struct throughput_config c = {
        .options = {.net = "resnet8", .image_size = 32, .rounds = 2, .out = stdout},
        .steps = 4,
        .n_keys = 1,
        .key = {{"amp", 4}},
        .peer = "peer"};
    struct throughput_row row[3] = {{{0}}};
    struct throughput t = {
        .config = &c, .row = row, .work = {.dir = fuzz_dir(), .devices = "cuda:0"}};
    enum status st = throughput_plan_make(&c, &t.plan);
    for (int i = 0; st == STATUS_OK && i < t.plan.n_slots; i++)
        row[i].slot = t.plan.slot[i];
    st = st == STATUS_OK ? throughput_resume(&t) : st;
    if (fuzz_ok(st))
        json_decref(throughput_json(&t));
    for (int i = 0; i < 3; i++)
        train_ladder_close(&row[i].ladder);
    throughput_plan_free(&t.plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct history h = {0};
    struct peaks peaks;
    unsigned found = fuzz_files(data, size, names);
    if (found & 1u << ACCEPT)
        accept_record();
    if (found & 1u << ANALYSIS)
        analysis_record();
    if (found & 1u << HISTORY) {
        fuzz_ok(history_load(fuzz_dir(), false, &h));
        history_free(&h);
    }
    if (found & 1u << PEAK)
        fuzz_ok(peaks_read(fuzz_path(names[PEAK]), &peaks));
    if (found & 1u << DATASET)
        fuzz_ok(synth_check_complete(fuzz_dir()));
    if (found & 1u << PLAN)
        plan_record();
    if (found & 1u << THROUGHPUT)
        throughput_record();
    return 0;
}
