/* Reads metrics from the JSON that a command printed: tables describe where each metric is. The
 * readings of `info`, the self-test and the benchmarks. */
#include "accept/accept_read.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILLED_SIZE = 2 * ACCEPT_NAME_SIZE };

static const json_t *value_at(const json_t *value, const char *path)
{
    while (value && *path) {
        char key[ACCEPT_NAME_SIZE];
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
                                     : json_object_get(value, key);
        path += n + (path[n] == '.');
    }
    return value;
}

double accept_read_number(const json_t *object, const char *path)
{
    const json_t *value = value_at(object, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *accept_read_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(value_at(object, path));
    return text ? text : "";
}

/* Replaces each "{member}" in a metric's name by the row's member, and "{}" by `number`. Numbers
 * lose their decimals, and blanks become '_'. False if the row lacks a member. */
static bool fill_name(const char *name, const json_t *row, const char *number,
                      char out[FILLED_SIZE])
{
    *out = '\0';
    while (*name) {
        char key[ACCEPT_NAME_SIZE];
        size_t plain = strcspn(name, "{"), n = strcspn(name + plain, "}");
        text_append(out, FILLED_SIZE, "%.*s", (int)plain, name);
        name += plain;
        if (!*name)
            break;
        snprintf(key, sizeof key, "%.*s", (int)n - 1, name + 1);
        name += n + 1;
        const json_t *value = json_object_get(row, key);
        if (!*key)
            text_append(out, FILLED_SIZE, "%s", number);
        else if (json_is_string(value))
            text_append(out, FILLED_SIZE, "%s", json_string_value(value));
        else if (json_is_number(value))
            text_append(out, FILLED_SIZE, "%.0f", json_number_value(value));
        else
            return false;
    }
    for (char *c = out; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    return true;
}

static enum status add_value(const struct accept_column *c, double value, const char *name,
                             struct accept_result *r)
{
    return accept_result_number(r, name, c->unit, c->better,
                                value * (c->scale != 0 ? c->scale : 1));
}

enum status accept_read_row(const struct accept_column *c, const json_t *row, const char *number,
                            struct accept_result *r)
{
    for (; c->name; c++) {
        char name[FILLED_SIZE];
        const char *text = accept_read_text(row, c->path);
        if (c->over != ACCEPT_EACH || !fill_name(c->name, row, number, name))
            continue;
        if (c->unit)
            TRY(add_value(c, accept_read_number(row, c->path), name, r));
        else if (*text)
            TRY(accept_result_text(r, name, text));
    }
    return STATUS_OK;
}

static bool has_names(const struct accept_column *c, const json_t *row)
{
    char name[FILLED_SIZE];
    for (; c->name; c++)
        if (!fill_name(c->name, row, "", name))
            return false;
    return true;
}

/* Reduces a column to one number. Ignores a row that lacks a member used in a metric's name. */
static double over_rows(const struct accept_column *c, const struct accept_column *all,
                        const json_t *rows)
{
    double sum = c->over == ACCEPT_LEAST ? INFINITY : 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double x = accept_read_number(row, c->path);
        bool is_true = json_is_true(value_at(row, c->path));
        if (!has_names(all, row))
            continue;
        if (c->over == ACCEPT_LEAST)
            sum = isnan(x) || isnan(sum) ? NAN : fmin(sum, x);
        else
            sum += c->over == ACCEPT_SUM    ? x
                   : c->over == ACCEPT_ROWS ? 1
                                            : is_true == (c->over == ACCEPT_TRUE);
    }
    return sum;
}

static enum status read_table(const struct accept_reading *t, const json_t *rows,
                              struct accept_result *r)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char number[24];
        const json_t *row = json_array_get(rows, i);
        if (!has_names(t->column, row))
            continue;
        n++;
        snprintf(number, sizeof number, "%02zu", i + 1);
        TRY(accept_read_row(t->column, row, number, r));
    }
    if (n == 0 && t->needs)
        return status_fail(STATUS_DATA, "the output has no %s", t->needs);
    for (const struct accept_column *c = t->column; n > 0 && c->name; c++)
        if (c->over != ACCEPT_EACH)
            TRY(add_value(c, over_rows(c, t->column, rows), c->name, r));
    return STATUS_OK;
}

enum status accept_read(const struct accept_reading *reading, const struct accept_output *output,
                        struct accept_result *r)
{
    for (; reading->read || reading->column; reading++)
        if (reading->read)
            TRY(reading->read(output, r));
        else if (reading->rows)
            TRY(read_table(reading, value_at(output->json, reading->rows), r));
        else
            TRY(accept_read_row(reading->column, output->json, "", r));
    return STATUS_OK;
}

/* --- facts --- */

/* Whether a device, such as "cuda:3" or "cpu", is one of the spec's devices. */
static bool is_asked(const struct accept_output *o, const char *device)
{
    size_t n = strlen(o->device);
    if (strncmp(device, o->device, n) != 0 || !strchr(":", device[n]))
        return false;
    return o->only_device < 0 || (device[n] ? atoi(device + n + 1) : 0) == o->only_device;
}

static enum status read_devices(const struct accept_output *o, struct accept_result *r)
{
    const json_t *list = json_object_get(o->json, "devices");
    const char *why = "this machine has no device of that number";
    int n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        const char *text = accept_read_text(d, "description");
        bool usable = json_is_true(json_object_get(d, "usable"));
        if (!is_asked(o, accept_read_text(d, "device")))
            continue;
        if (usable)
            TRY(accept_read_row(COLUMNS({"description", "device", NULL}), d, "", r));
        else if (*text)
            why = text;
        n += usable;
    }
    if (n > 0)
        return accept_result_number(r, "devices", "", ACCEPT_HIGHER, n);
    char only[16] = "";
    if (o->only_device >= 0)
        snprintf(only, sizeof only, ":%d", o->only_device);
    return status_fail(STATUS_DATA, "no device '%s%s': %s", o->device, only, why);
}

static enum status read_libraries(const struct accept_output *o, struct accept_result *r)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(o->json, "libraries"), key, value)
    {
        char name[ACCEPT_NAME_SIZE];
        snprintf(name, sizeof name, "library_%.40s", key);
        if (json_is_string(value))
            TRY(accept_result_text(r, name, json_string_value(value)));
    }
    return STATUS_OK;
}

const struct accept_reading accept_read_facts[] = {
    {.read = read_devices},
    {.column = COLUMNS({"host.cpu.model", "cpu", NULL},
                       {"host.cpu.sockets", "sockets", "", ACCEPT_HIGHER},
                       {"host.cpu.cores", "cores", "", ACCEPT_HIGHER},
                       {"host.cpu.threads", "threads", "", ACCEPT_HIGHER},
                       {"host.cpu.usable", "usable_threads", "", ACCEPT_HIGHER},
                       {"host.memory_bytes", "memory_gib", "GiB", ACCEPT_HIGHER, 0x1p-30},
                       {"host.cpu.governor", "governor", NULL}, {"host.os", "os", NULL},
                       {"host.kernel", "kernel", NULL}, {"version", "ampscale", NULL})},
    {.read = read_libraries},
    {.rows = "gpus",
     .column =
         COLUMNS({"name", "gpu", NULL},
                 {"memory_bytes", "gpu_memory_gib", "GiB", ACCEPT_HIGHER, 0x1p-30, ACCEPT_LEAST},
                 {"power_limit_w", "power_limit_w", "W", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
                 {"pcie_generation", "pcie_generation", "", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
                 {"pcie_width", "pcie_width", "", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
                 {"max_pcie_generation", "max_pcie_generation", "", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
                 {"max_pcie_width", "max_pcie_width", "", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
                 {"max_clock_mhz", "max_clock_mhz", "MHz", ACCEPT_HIGHER, 1, ACCEPT_LEAST},
                 {"xid_errors", "xid_errors", "", ACCEPT_LOWER, 1, ACCEPT_SUM},
                 {"remapped_rows", "remapped_rows", "", ACCEPT_LOWER, 1, ACCEPT_SUM},
                 {"remapping_pending", "remapping_pending", "", ACCEPT_LOWER, 1, ACCEPT_SUM},
                 {"remapping_failed", "remapping_failed", "", ACCEPT_LOWER, 1, ACCEPT_SUM})},
    {.column = COLUMNS({"gpus.0.driver", "driver", NULL})},
    {0}};

/* --- tables --- */

/* Reads the bandwidth of the largest copy. */
static enum status read_bandwidth(const struct accept_output *o, struct accept_result *r)
{
    const json_t *list = json_object_get(o->json, "copy");
    double largest = 0, bandwidth = NAN;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (!(accept_read_number(row, "bytes") > largest))
            continue;
        largest = accept_read_number(row, "bytes");
        bandwidth = accept_read_number(row, "bytes_per_s");
    }
    return accept_result_number(r, "bandwidth", "GB/s", ACCEPT_HIGHER, bandwidth * 1e-9);
}

const struct accept_reading accept_read_peak[] = {
    {.read = read_bandwidth},
    {.rows = "flops",
     .column =
         COLUMNS({"flops_per_s", "products_{type}", "TFLOP/s", ACCEPT_HIGHER, .scale = 1e-12})},
    {0}};

const struct accept_reading accept_read_memory[] = {
    {.rows = "rows",
     .column = COLUMNS({"median_gb_per_s", "{kernel}", "GB/s", ACCEPT_HIGHER},
                       {"wrong", "wrong", "", ACCEPT_LOWER, .over = ACCEPT_SUM})},
    {0}};

/* Each direction between two devices is a metric, to find a link that is slow in one direction
 * only. */
const struct accept_reading accept_read_peers[] = {
    {.rows = "pairs",
     .needs = "pair of devices",
     .column = COLUMNS({"median_gb_per_s", "copy_{from}_{to}", "GB/s", ACCEPT_HIGHER},
                       {"", "pairs", "", ACCEPT_HIGHER, .over = ACCEPT_ROWS},
                       {"direct", "direct", "", ACCEPT_HIGHER, .over = ACCEPT_TRUE},
                       {"direct", "staged", "", ACCEPT_LOWER, .over = ACCEPT_FALSE},
                       {"wrong", "wrong", "", ACCEPT_LOWER, .over = ACCEPT_SUM})},
    {0}};

const struct accept_reading accept_read_optimizer[] = {
    {.rows = "rows", .column = COLUMNS({"gb_per_s", "update_{precision}", "GB/s", ACCEPT_HIGHER})},
    {0}};

/* Each stage has one row for each source of files (storage, memory) and each number of threads. */
const struct accept_reading accept_read_input[] = {
    {.rows = "rows",
     .column = COLUMNS({"images_per_s", "{stage}_{from}_{threads}", "images/s", ACCEPT_HIGHER})},
    {0}};

const struct accept_reading accept_read_gpu_input[] = {
    {.column = COLUMNS({"gpu_decoder", "jpeg_engines", NULL})},
    {.rows = "rows",
     .column = COLUMNS({"images_per_s", "{stage}_{from}_{threads}", "images/s", ACCEPT_HIGHER},
                       {"on_gpu", "on_gpu", "images", ACCEPT_HIGHER, .over = ACCEPT_SUM},
                       {"wrong", "wrong", "", ACCEPT_LOWER, .over = ACCEPT_SUM})},
    {0}};

const struct accept_reading accept_read_conv[] = {
    {.column = COLUMNS({"bound_images_per_s", "images_per_s", "images/s", ACCEPT_HIGHER})}, {0}};

const struct accept_reading accept_read_collective[] = {
    {.column = COLUMNS({"wrong", "wrong", "", ACCEPT_LOWER})},
    {.rows = "rows",
     .column = COLUMNS({"out_of_place.busbw", "busbw_{bytes}_out", "GB/s", ACCEPT_HIGHER},
                       {"in_place.busbw", "busbw_{bytes}_in", "GB/s", ACCEPT_HIGHER})},
    {0}};

/* One rank has no bandwidth. */
const struct accept_reading accept_read_nccl[] = {
    {.column = COLUMNS({"wrong", "wrong", "", ACCEPT_LOWER})}, {0}};

/* --- a step --- */

/* Adds the seconds of one operation to the sum of its kind; false if the operation has no time. */
static bool add_operation(json_t *kinds, const json_t *step)
{
    const char *op = accept_read_text(step, "op");
    double seconds = accept_read_number(step, "seconds");
    if (!*op || isnan(seconds))
        return false;
    json_put(kinds, op, json_finite(seconds + json_real_value(json_object_get(kinds, op))));
    return true;
}

/* Adds metrics for the milliseconds of the step and of each kind of operation. Adds the metric
 * "of_peak": the least time in which the step could run at the device's peaks, in percent of the
 * measured time. Increases *bound_s by this least time, in seconds. An operation without a known
 * least time counts as 0. */
static enum status add_operations(const json_t *steps, json_t *kinds, double *bound_s,
                                  struct accept_result *r)
{
    const char *op;
    json_t *value;
    double seconds = 0;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        if (!add_operation(kinds, step))
            return status_fail(STATUS_DATA, "operation %zu of the step has no time", i);
        seconds += accept_read_number(step, "seconds");
        *bound_s += fmax(0, accept_read_number(step, "bound_s")); /* 0 if there is none */
    }
    if (!(seconds > 0))
        return status_fail(STATUS_DATA, "the output has no operation");
    TRY(accept_result_number(r, "step_ms", "ms", ACCEPT_LOWER, seconds * 1e3));
    TRY(accept_result_number(r, "of_peak", "%", ACCEPT_HIGHER, 100 * *bound_s / seconds));
    json_object_foreach(kinds, op, value)
    {
        char name[ACCEPT_NAME_SIZE];
        snprintf(name, sizeof name, "%.40s_ms", op);
        TRY(accept_result_number(r, name, "ms", ACCEPT_LOWER, json_real_value(value) * 1e3));
    }
    return STATUS_OK;
}

static enum status read_operations(const struct accept_output *o, struct accept_result *r)
{
    static const struct accept_column columns[] = {
        {"precision", "precision", NULL}, {"batch", "batch", "images", ACCEPT_EVEN}, {0}};
    double bound_s = 0;
    json_t *kinds = json_object();
    enum status st = add_operations(json_object_get(o->json, "steps"), kinds, &bound_s, r);
    json_decref(kinds);
    TRY(st);
    TRY(accept_read_row(columns, o->json, "", r));
    /* The highest images/s that the peaks allow. */
    return accept_result_number(r, "bound_images_per_s", "images/s", ACCEPT_HIGHER,
                                accept_read_number(o->json, "batch") / bound_s);
}

const struct accept_reading accept_read_step[] = {{.read = read_operations}, {0}};

/* --- GEMM --- */

/* GEMM throughput of one data type: the FLOPs of all GEMMs divided by their seconds. Each GEMM
 * counts as often as the network runs it. NAN if a GEMM was not measured. */
static double gemm_rate(const json_t *rows, const char *type)
{
    double flops = 0, seconds = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double count = accept_read_number(row, "count");
        if (strcmp(accept_read_text(row, "type"), type) != 0)
            continue;
        flops += count * accept_read_number(row, "flops");
        seconds += count * accept_read_number(row, "seconds.median");
    }
    return seconds > 0 ? flops / seconds : NAN;
}

static enum status read_gemm_rates(const struct accept_output *o, struct accept_result *r)
{
    static const char *const types[] = {"fp32", "tf32", "fp16", "bf16"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char name[ACCEPT_NAME_SIZE];
        snprintf(name, sizeof name, "products_%s", types[t]);
        TRY(accept_result_number(r, name, "TFLOP/s", ACCEPT_HIGHER,
                                 gemm_rate(json_object_get(o->json, "rows"), types[t]) * 1e-12));
    }
    return STATUS_OK;
}

const struct accept_reading accept_read_gemm[] = {
    {.read = read_gemm_rates},
    {.rows = "rows", .column = COLUMNS({"wrong", "wrong", "", ACCEPT_LOWER, .over = ACCEPT_SUM})},
    {0}};
