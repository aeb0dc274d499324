/* Fuzzes specs of studies and of acceptances, and the commands that are planned from them. */
#include "accept/accept_suite.h"
#include "study/study_plan.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

/* The commands of larger plans are not printed: that would take longer than one input may. */
enum { RUNS_PRINTED_MAX = 200 };

static void study(const char *text, size_t size)
{
    struct study_spec spec = {0};
    struct study_plan plan = {0};
    json_t *json;
    if (!fuzz_ok(study_spec_parse(text, size, "spec", &spec)))
        return;
    if (fuzz_ok(study_plan_make(&spec, &plan)) && plan.n_runs <= RUNS_PRINTED_MAX &&
        fuzz_ok(study_plan_json(&plan, "study", &json)))
        json_decref(json);
    study_plan_free(&plan);
    study_spec_free(&spec);
}

static void accept_with(const char *text, size_t size, int devices)
{
    struct accept_spec spec = {0};
    const struct accept_options options = {
        .program = "ampscale", .dir = "node", .level = ACCEPT_LEVEL_MAX};
    double seconds;
    static FILE *out;
    if (!out && !(out = fopen("/dev/null", "w")))
        abort();
    if (!fuzz_ok(accept_spec_parse(text, size, "spec", devices, &spec)))
        return;
    fuzz_ok(accept_plan_seconds(&spec, &options, &seconds));
    fuzz_ok(accept_plan_print(&spec, &options, out));
    for (int i = 0; i < spec.n_checks; i++)
        accept_limit_for(&spec.check[i], "images_per_s");
    accept_spec_free(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    study((const char *)data, size);
    accept_with((const char *)data, size, 0);
    accept_with((const char *)data, size, 3);
    return 0;
}
