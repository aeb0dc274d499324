/* Fuzzes the functions with which plots, reports, comparisons and watch read a run's folder. */
#include "compare/fingerprint.h"
#include "results/follow.h"
#include "results/ranks.h"
#include "results/run.h"
#include "results/sensors.h"
#include "tests/fuzz/fuzz.h"

static const char *const names[] = {"run.json",    "steps.jsonl",     "epochs.jsonl",
                                    "ranks.jsonl", "telemetry.jsonl", "summary.json",
                                    NULL};

static void summarise(const struct run *run)
{
    struct ranks ranks;
    json_t *fingerprint, *into = json_object();
    int64_t hosts, most;
    if (fuzz_ok(ranks_of(run, &ranks)))
        ranks_free(&ranks);
    energy_of(run);
    if (into)
        fuzz_ok(sensors_add(run, into));
    json_decref(into);
    for (int64_t a = 0; a <= run->resumes && a < 8; a++) {
        fuzz_ok(run_hosts(run, a, &hosts, &most));
        run_rank_host(run, a, run_attempt_ranks(run, a) - 1);
        run_host_cores(run, a);
    }
    run_left_out(run);
    run_config_text(run, "arch", "");
    run_config_count(run, "batch_size", 0);
    if (fuzz_ok(fingerprint_of(run, &fingerprint)))
        json_decref(fingerprint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run *run;
    struct follow *f;
    fuzz_files(data, size, names);
    if (fuzz_ok(run_load(fuzz_dir(), &run))) {
        summarise(run);
        run_free(run);
    }
    if (fuzz_ok(follow_open(fuzz_dir(), &f))) {
        fuzz_ok(follow_poll(f));
        follow_close(f);
    }
    return 0;
}
