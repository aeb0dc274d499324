/* Compares a run with a recorded run. */
#include "runners/session.h"

#include "base/json.h"
#include "runners/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum status differs(const struct run *run, const char *what, const json_t *own,
                           const json_t *recorded)
{
    char *mine = json_text(own, JSON_ENCODE_ANY | JSON_COMPACT);
    char *theirs = json_text(recorded, JSON_ENCODE_ANY | JSON_COMPACT);
    enum status st =
        status_fail(STATUS_USAGE,
                    "--expect '%s': its %s is %.160s, but this run's is %.160s: different runs "
                    "cannot have the same bits",
                    run->dir, what, theirs ? theirs : "absent", mine ? mine : "absent");
    free(mine);
    free(theirs);
    return st;
}

/* Compares two values; numbers are equal if they agree in the digits that run.json keeps. */
static bool same(const json_t *a, const json_t *b)
{
    if (!json_is_number(a) || !json_is_number(b))
        return json_equal(a, b);
    double x = json_number_value(a), y = json_number_value(b);
    return fabs(x - y) <= 1e-12 * fmax(fabs(x), fabs(y));
}

/* Checks that every member of `own` has an equal value in `recorded`. Settings that change no bit
 * of the results may differ. `swapped`: the caller has exchanged `own` and `recorded`. */
static enum status compare(const struct run *run, json_t *own, const json_t *recorded, bool swapped)
{
    const char *key;
    json_t *value;
    json_object_foreach(own, key, value)
    {
        const json_t *other = json_object_get(recorded, key);
        if (train_key_is_neutral(key) || (other && same(value, other)))
            continue;
        return swapped ? differs(run, key, other, value) : differs(run, key, value, other);
    }
    return STATUS_OK;
}

static enum status compare_objects(const struct run *run, const char *name, const json_t *own)
{
    json_t *recorded = json_object_get(run->info, name);
    json_t *copy = json_deep_copy(own); /* jansson cannot iterate over a const object */
    enum status st = compare(run, copy, recorded, false);
    st = st == STATUS_OK ? compare(run, recorded, copy, true) : st;
    json_decref(copy);
    return st;
}

static enum status check(const struct run *run, const json_t *config, const json_t *libraries,
                         const char *device)
{
    json_t *own = json_utf8(device);
    const json_t *recorded = json_object_get(run->info, "device");
    enum status st = STATUS_OK;
    if (json_object_get(json_object_get(run->info, "config"), "inject"))
        st =
            status_fail(STATUS_DATA, "--expect '%s': faults were injected into that run", run->dir);
    else if (!json_is_string(json_object_get(run->summary, "state_bits")))
        st = status_fail(STATUS_DATA,
                         "--expect '%s': that run is incomplete, or has no hash of its final state",
                         run->dir);
    else if (!json_equal(own, recorded))
        st = differs(run, "device", own, recorded);
    json_decref(own);
    TRY(st);
    TRY(compare_objects(run, "libraries", libraries));
    return compare_objects(run, "config", config);
}

enum status expected_open(const char *dir, const json_t *config, const json_t *libraries,
                          const char *device, struct run **out)
{
    struct run *run;
    *out = NULL;
    TRY(run_load(dir, &run));
    enum status st = STATUS_OK;
    for (size_t i = 0; i < json_array_size(run->infos) && st == STATUS_OK; i++) {
        const struct run attempt = run_attempt(run, i);
        st = check(&attempt, config, libraries, device);
    }
    if (st == STATUS_OK)
        *out = run;
    else
        run_free(run);
    return st;
}

enum status expected_step(const struct run *run, const struct step_record *step)
{
    char text[32];
    int64_t i = run->n_steps ? step->step - run->step[0].step : 0; /* it may begin at another's */
    if (i < 0 || i >= run->n_steps || run->step[i].step != step->step)
        return status_fail(STATUS_DATA, "--expect '%s': that run has no step %" PRId64, run->dir,
                           step->step);
    double want = run->step[i].loss;
    snprintf(text, sizeof text, "%.9g", step->loss);
    double loss = strtod(text, NULL);
    if (loss == want || (isnan(loss) && isnan(want)))
        return STATUS_OK;
    return status_fail(
        STATUS_MISMATCH,
        "step %" PRId64
        ": the loss is %.9g, but in '%s' it was %.9g, with the same configuration and hardware: "
        "the data differ, or a device computed a wrong result in one of the runs",
        step->step, loss, run->dir, want);
}

enum status expected_end(const struct run *run, int64_t steps, const char *state)
{
    const char *want = json_string_value(json_object_get(run->summary, "state_bits"));
    int64_t ended = run->n_steps ? run->step[run->n_steps - 1].step + 1 : 0;
    if (steps != ended)
        return status_fail(STATUS_DATA,
                           "--expect '%s': that run ended after %" PRId64 " steps, this run after "
                           "%" PRId64,
                           run->dir, ended, steps);
    if (strcmp(state, want) == 0)
        return STATUS_OK;
    return status_fail(
        STATUS_MISMATCH,
        "weights, momentum or running statistics at the end differ from those of '%s' (%s, not "
        "%s), though all losses are equal: a device computed a wrong result in one of the runs",
        run->dir, state, want);
}
