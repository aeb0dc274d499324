/* Reads metrics of correctness and of training: from tests of single operations, from the accuracy
 * and the throughput of training, and from the folder of a run. */
#include "accept/accept_read.h"

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "results/run.h"
#include "results/sensors.h"
#include "results/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Reads the number of cases, and the number of wrong cases. */
#define CASES                                                                                      \
    {                                                                                              \
        .rows = "cases", .needs = "case of the self-test",                                         \
        .column = COLUMNS({"", "cases", "", ACCEPT_HIGHER, .over = ACCEPT_ROWS},                   \
                          {"ok", "wrong", "", ACCEPT_LOWER, .over = ACCEPT_FALSE})                 \
    }

const struct accept_reading accept_read_selftest[] = {CASES, {0}};

const struct accept_reading accept_read_determinism[] = {
    CASES,
    {.rows = "cases",
     .column = COLUMNS({"bits", "bits_{arch}_{image_size}_{precision}", NULL},
                       {"difference", "difference_{arch}_{image_size}_{precision}", NULL})},
    {0}};

/* Adds the first failure as "KIND: NAME: REASON", such as "conv_fwd: 3x3, batch 2: 7 is 8". */
static enum status read_failure(const struct accept_output *o, struct accept_result *r)
{
    static const char *const part[] = {"failures.0.kind", "failures.0.name", "failures.0.reason"};
    char text[ACCEPT_VALUE_SIZE] = "";
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (*accept_read_text(o->json, part[i]))
            text_join(text, sizeof text, ": ", "%s", accept_read_text(o->json, part[i]));
    return *text ? accept_result_text(r, "first_failure", text) : STATUS_OK;
}

/* For each kind of operation whose process did not complete, adds how that process ended. */
static enum status read_ends(const struct accept_output *o, struct accept_result *r)
{
    const json_t *kinds = json_object_get(o->json, "kinds");
    for (size_t i = 0; i < json_array_size(kinds); i++)
        if (strcmp(accept_read_text(json_array_get(kinds, i), "ended"), "completed") != 0)
            TRY(accept_read_row(COLUMNS({"ended", "ended_{kind}", NULL}), json_array_get(kinds, i),
                                "", r));
    return STATUS_OK;
}

const struct accept_reading accept_read_operations[] = {
    {.column = COLUMNS(
         {"cases", "cases", "cases", ACCEPT_HIGHER}, {"passed", "passed", "cases", ACCEPT_HIGHER},
         {"skipped", "skipped", "cases", ACCEPT_LOWER}, {"failed", "wrong", "cases", ACCEPT_LOWER},
         {"crashed", "crashed", "kinds", ACCEPT_LOWER}, {"late", "late", "kinds", ACCEPT_LOWER})},
    {.read = read_failure},
    {.rows = "kinds", .column = COLUMNS({"passed", "passed_{kind}", "cases", ACCEPT_HIGHER})},
    {.read = read_ends},
    {0}};

const struct accept_reading accept_read_sanitizer[] = {
    {.column =
         COLUMNS({"tool", "tool", NULL}, {"cases", "cases", "cases", ACCEPT_HIGHER},
                 {"findings", "findings", "", ACCEPT_LOWER}, {"first", "first_finding", NULL})},
    {0}};

/* Adds the metrics rung_<of>, falls_<of> and why_<of> of a row. */
static enum status read_rung(const json_t *row, const char *of, struct accept_result *r)
{
    const json_t *falls = json_object_get(row, "falls");
    char name[ACCEPT_NAME_SIZE * 2];
    snprintf(name, sizeof name, "falls_%s", of);
    TRY(accept_read_row(COLUMNS({"rung", "rung_{}", NULL}), row, of, r));
    if (*accept_read_text(row, "rung"))
        TRY(accept_result_number(r, name, "", ACCEPT_LOWER, (double)json_array_size(falls)));
    return accept_read_row(COLUMNS({"why", "why_{}", NULL}),
                           *accept_read_text(row, "why") ? row : json_array_get(falls, 0), of, r);
}

/* Adds for each precision its validation top-1, the reference top-1 (the mean over seeds on a CPU),
 * their difference, and the rung (fallback level) that the precision ran on. */
static enum status read_precisions(const struct accept_output *o, struct accept_result *r)
{
    const json_t *rows = json_object_get(o->json, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *precision = accept_read_text(row, "precision");
        double off = accept_read_number(row, "val_top1") - accept_read_number(row, "cpu.mean");
        char name[ACCEPT_NAME_SIZE];
        if (!*precision)
            continue;
        snprintf(name, sizeof name, "off_cpu_%.16s", precision);
        TRY(accept_read_row(COLUMNS({"val_top1", "top1_{}", "%", ACCEPT_HIGHER},
                                    {"cpu.mean", "cpu_top1_{}", "%", ACCEPT_EVEN}),
                            row, precision, r));
        TRY(accept_result_number(r, name, "points", ACCEPT_EVEN, off));
        TRY(read_rung(row, precision, r));
    }
    return json_array_size(rows) > 0 ? STATUS_OK
                                     : status_fail(STATUS_DATA, "no precision was measured");
}

const struct accept_reading accept_read_accuracy[] = {{.read = read_precisions}, {0}};

enum { WORK_SIZE = 48 };

/* --- throughput --- */

/* Writes a row's precision and batch, which metrics' names contain: "amp_256". If `ways`, also
 * writes the row's fusion and launch modes: "amp_256_fuse-none_no-graph". */
static void name_work(const json_t *row, bool ways, char out[WORK_SIZE])
{
    const char *fuse = accept_read_text(row, "fuse");
    snprintf(out, WORK_SIZE, "%.12s_%.0f", accept_read_text(row, "precision"),
             accept_read_number(row, "batch"));
    if (ways && *fuse)
        text_append(out, WORK_SIZE, "_fuse-%.10s_%s", fuse,
                    json_is_true(json_object_get(row, "graphs")) ? "graph" : "no-graph");
}

/* Sets *prefix to the text that stands for the trainer `who` in a metric's name; it is "" for
 * ampscale. Returns false for an unknown trainer. */
static bool name_who(const char *who, const char **prefix)
{
    static const char *const names[][2] = {{"ampscale", ""},
                                           {"ampscale, from files", "files_"},
                                           {"PyTorch eager", "peer_eager_"},
                                           {"PyTorch compile", "peer_compile_"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *prefix = names[i][1];
        if (strcmp(who, names[i][0]) == 0)
            return true;
    }
    return false;
}

static bool is_peer(const json_t *row)
{
    return strncmp(accept_read_text(row, "who"), "PyTorch", 7) == 0;
}

/* Returns the images/s of PyTorch's fastest mode at a row's precision and batch; NAN if PyTorch has
 * no result there. Writes the mode to `mode`, and why another mode is missing in the comparison:
 * "PyTorch eager only; PyTorch compile: out of time". */
static double fastest_peer(const json_t *rows, const json_t *row, char mode[ACCEPT_VALUE_SIZE])
{
    double best = NAN;
    char missing[ACCEPT_VALUE_SIZE] = "";
    *mode = '\0';
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);
        const char *who = accept_read_text(other, "who");
        double rate = accept_read_number(other, "images_per_s.median");
        if (!is_peer(other) ||
            accept_read_number(other, "batch") != accept_read_number(row, "batch") ||
            strcmp(accept_read_text(other, "precision"), accept_read_text(row, "precision")) != 0)
            continue;
        if (isnan(rate))
            text_append(missing, sizeof missing, "; %s: %s", who, accept_read_text(other, "why"));
        else if (isnan(best) || rate > best) {
            best = rate;
            snprintf(mode, ACCEPT_VALUE_SIZE, "%s", who);
        }
    }
    if (*missing)
        text_append(mode, ACCEPT_VALUE_SIZE, " only%s", missing);
    return best;
}

static enum status add_work(const json_t *rows, const json_t *row, bool ways,
                            struct accept_result *r)
{
    static const struct accept_column spread[] = {
        {"images_per_s.median", "images_per_s_{}", "images/s", ACCEPT_HIGHER},
        {"images_per_s.min", "lowest_{}", "images/s", ACCEPT_HIGHER},
        {"images_per_s.max", "highest_{}", "images/s", ACCEPT_HIGHER},
        {0}};
    char work[WORK_SIZE], of[ACCEPT_NAME_SIZE], name[ACCEPT_NAME_SIZE], mode[ACCEPT_VALUE_SIZE];
    const char *prefix;
    if (!name_who(accept_read_text(row, "who"), &prefix))
        return STATUS_OK;
    name_work(row, ways && !is_peer(row), work);
    snprintf(of, sizeof of, "%s%s", prefix, work);
    TRY(accept_read_row(spread, row, of, r));
    if (accept_read_number(row, "rounds") > 0) /* for a spec that asks for a result, not a speed */
        TRY(accept_read_row(COLUMNS({"rounds", "rounds_{}", "", ACCEPT_HIGHER}), row, of, r));
    TRY(read_rung(row, of, r));
    if (*prefix)
        return STATUS_OK;
    double ratio = accept_read_number(row, "images_per_s.median") / fastest_peer(rows, row, mode);
    if (isnan(ratio))
        return STATUS_OK;
    snprintf(name, sizeof name, "peer_mode_%s", work);
    TRY(accept_result_text(r, name, mode));
    snprintf(name, sizeof name, "of_peer_%s", work);
    return accept_result_number(r, name, "x", ACCEPT_HIGHER, ratio);
}

static enum status read_rates(const struct accept_output *o, struct accept_result *r)
{
    const json_t *rows = json_object_get(o->json, "rows");
    bool ways = json_object_get(o->args, "fuse") || json_object_get(o->args, "graphs");
    for (size_t i = 0; i < json_array_size(rows); i++)
        TRY(add_work(rows, json_array_get(rows, i), ways, r));
    return json_array_size(rows) > 0
               ? STATUS_OK
               : status_fail(STATUS_DATA, "no row of throughput was measured");
}

const struct accept_reading accept_read_throughput[] = {
    {.column =
         COLUMNS({"net", "net", NULL}, {"peer", "peer", NULL}, {"peer_ended", "peer_ended", NULL},
                 {"image_size", "image_size", "px", ACCEPT_EVEN})},
    {.read = read_rates},
    {0}};

/* --- losses --- */

static uint64_t loss_bits(const struct run *run)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < run->n_steps; i++) {
        uint64_t bits;
        memcpy(&bits, &run->step[i].loss, sizeof bits);
        hash = hash_splitmix64(hash ^ bits);
    }
    return hash;
}

static enum status add_losses(const struct run *run, struct accept_result *r)
{
    char bits[32];
    if (run->n_steps == 0)
        return STATUS_OK;
    snprintf(bits, sizeof bits, "%016" PRIx64, loss_bits(run));
    TRY(accept_result_number(r, "steps", "", ACCEPT_HIGHER, (double)run->n_steps));
    TRY(accept_result_number(r, "loss", "", ACCEPT_EVEN, run->step[run->n_steps - 1].loss));
    return accept_result_text(r, "loss_bits", bits);
}

/* --- sensors --- */

static const struct accept_column sensors[] = {
    {"temperature_c", "temperature_c", "C", ACCEPT_LOWER, 1, ACCEPT_MOST},
    {"power_w", "power_w", "W", ACCEPT_EVEN, 1, ACCEPT_MOST},
    {"memory_bytes", "memory_gib", "GiB", ACCEPT_LOWER, 0x1p-30, ACCEPT_MOST},
    {"clock_mhz", "clock_mhz", "MHz", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
    {"ecc_corrected", "ecc_corrected", "", ACCEPT_LOWER, 1, ACCEPT_SUM},
    {"ecc_uncorrected", "ecc_uncorrected", "", ACCEPT_LOWER, 1, ACCEPT_SUM},
};

/* The devices whose sensors are read. */
struct devices {
    const struct accept_output *output;
    const json_t *list;
    const char *host; /* host of the devices whose record has no "host" */
};

/* Adds a metric with the value and the place of device `worst`, the worst of all devices. */
static enum status add_worst(const struct devices *d, const struct accept_column *c, double value,
                             size_t worst, struct accept_result *r)
{
    char where[ACCEPT_WHERE_SIZE];
    TRY(accept_result_number(r, c->name, c->unit, c->better, value));
    if (!isfinite(value) || value == 0) /* no device to name */
        return STATUS_OK;
    /* The place is text such as "node7 cuda:3". Host and index come from the device's record or, if
     * they are not in it, from the run and the check. */
    const json_t *device = json_array_get(d->list, worst);
    const char *host = accept_read_text(device, "host");
    double index = accept_read_number(device, "index");
    if (isnan(index))
        index = d->output->check_device >= 0 ? d->output->check_device : (double)worst;
    snprintf(where, ACCEPT_WHERE_SIZE, "%.60s %s:%.0f", *host ? host : d->host, d->output->device,
             fmin(fmax(index, 0), ACCEPT_DEVICES_MAX));
    accept_metric_place(accept_metric_find(r, c->name), where);
    return STATUS_OK;
}

/* Reduces a sensor's values on all devices to one number, and adds it with the place of the worst
 * device; adds nothing if a device lacks the sensor. */
static enum status add_sensor(const struct devices *d, const struct accept_column *c,
                              struct accept_result *r)
{
    double sum = 0, far = NAN;
    size_t worst = 0;
    for (size_t i = 0; i < json_array_size(d->list); i++) {
        const json_t *device = json_array_get(d->list, i);
        double x = accept_read_number(device, c->path);
        if (isnan(x) && strchr(c->path, '.') && json_object_get(device, "throttled"))
            x = 0; /* a reason that did not occur is not listed */
        if (isnan(x))
            return STATUS_OK;
        sum += x;
        if (i > 0 && (c->over == ACCEPT_LEAST ? x >= far : x <= far))
            continue;
        far = x;
        worst = i;
    }
    if (isnan(far))
        return STATUS_OK;
    return add_worst(d, c, c->scale * (c->over == ACCEPT_SUM ? sum : far), worst, r);
}

static enum status add_throttling(const struct devices *d, struct accept_result *r)
{
    const char *reason;
    for (uint32_t bit = 1; (reason = throttle_word(bit)); bit <<= 1) {
        char name[ACCEPT_NAME_SIZE], key[ACCEPT_NAME_SIZE];
        if (bit == THROTTLE_IDLE) /* an idle device is not throttled */
            continue;
        snprintf(key, sizeof key, "throttled.%s", reason);
        snprintf(name, sizeof name, "throttled_%s", reason);
        for (char *c = name; *c; c++)
            *c = *c == ' ' ? '_' : *c;
        const struct accept_column share = {key, name, "%", ACCEPT_LOWER, 100, ACCEPT_MOST};
        TRY(add_sensor(d, &share, r));
    }
    return STATUS_OK;
}

/* Adds the sensors of `n` devices; adds nothing if the run's record has fewer devices. */
static enum status add_sensors(const struct devices *d, size_t n, struct accept_result *r)
{
    if (json_array_size(d->list) < n)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        TRY(add_sensor(d, &sensors[i], r));
    return add_throttling(d, r);
}

/* --- the run --- */

static enum status add_run(const struct run *run, const struct accept_output *o,
                           struct accept_result *r)
{
    static const struct accept_column columns[] = {
        {"images_per_s.median", "images_per_s", "images/s", ACCEPT_HIGHER},
        {"step_s.total", "step_s", "s", ACCEPT_LOWER},
        {0}};
    int n = o->check_device < 0 ? o->n_devices : 1;
    const char *host = accept_read_text(run->info, "host.hostname");
    struct devices d = {.output = o, .host = *host ? host : "this node"};
    enum status st;
    json_t *sum = json_object();
    CHECK(summary_add(run, sum));
    CHECK(accept_read_row(columns, sum, "", r));
    CHECK(accept_result_number(r, "images_per_s_per_device", "images/s", ACCEPT_HIGHER,
                               accept_read_number(sum, "images_per_s.median") / n));
    CHECK(add_losses(run, r));
    /* With several ranks the run's own summary has the devices of all ranks; the samples on disk
     * are only those of the first rank. */
    d.list = json_object_get(run_attempt_ranks(run, 0) > 1 ? run->summary : sum, "telemetry");
    CHECK(add_sensors(&d, (size_t)n, r));
done:
    json_decref(sum);
    return st;
}

static enum status read_run(const struct accept_output *o, struct accept_result *r)
{
    char path[ACCEPT_PATH_SIZE];
    struct run *run;
    TRY(path_format(path, sizeof path, "%s/run", o->dir));
    TRY(run_load_whole(path, &run));
    enum status st = add_run(run, o, r);
    /* Only the run's readings of the host's load count: steps that took far longer than the median
     * may be the fault of the hardware. To a run, the other checks are other work. */
    struct host_noise noise = host_noise_read(run->summary);
    if (!o->together)
        accept_noise_keep(r, &noise);
    if (st == STATUS_OK && !run->summary)
        st = status_fail(STATUS_DATA, "the run is incomplete: it has no summary.json");
    run_free(run);
    return st;
}

const struct accept_reading accept_read_train[] = {{.read = read_run}, {0}};
