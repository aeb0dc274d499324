/* Metrics from JSON that a command printed. Whatever is not there is not measured. */
#include "accept/read.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double accept_read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static enum status add_text(struct accept_result *r, const char *name, const json_t *value)
{
    return json_is_string(value) ? accept_result_text(r, name, json_string_value(value))
                                 : STATUS_OK;
}

/* --- facts --- */

/* "cuda:3" is of "cuda". */
static bool is_of(const char *device, const char *kind)
{
    size_t n = strlen(kind);
    return device && strncmp(device, kind, n) == 0 && (device[n] == '\0' || device[n] == ':');
}

static enum status no_device(const struct accept_spec *spec, const char *why)
{
    char device[ACCEPT_NAME_SIZE];
    int used = snprintf(device, sizeof device, "%s", spec->device);
    if (spec->only_device >= 0)
        snprintf(device + used, sizeof device - (size_t)used, ":%d", spec->only_device);
    return status_fail(STATUS_DATA, "no device '%s': %s", device, why);
}

/* "cuda:3" is number 3, and "cpu" is number 0. */
static bool is_number(const char *device, int number)
{
    const char *colon = strchr(device, ':');
    return (colon ? atoi(colon + 1) : 0) == number;
}

static enum status add_devices(const struct accept_spec *spec, const json_t *list,
                               struct accept_result *r)
{
    size_t i;
    json_t *d;
    int n = 0;
    const char *why = "there is none of that number";
    json_array_foreach((json_t *)list, i, d)
    {
        const json_t *description = json_object_get(d, "description");
        const char *name = json_string_value(json_object_get(d, "device"));
        if (!is_of(name, spec->device))
            continue;
        if (!json_is_true(json_object_get(d, "usable"))) {
            why = json_is_string(description) ? json_string_value(description) : why;
            continue;
        }
        if (spec->only_device >= 0 && !is_number(name, spec->only_device))
            continue;
        n++;
        TRY(add_text(r, "device", description));
    }
    if (n == 0)
        return no_device(spec, why);
    return accept_result_number(r, "devices", "", ACCEPT_HIGHER, n);
}

/* The least that any GPU has of something; not measured where one does not say. */
static enum status add_least(const json_t *gpus, const char *key, const char *name,
                             const char *unit, double scale, struct accept_result *r)
{
    double least = json_array_size(gpus) > 0 ? INFINITY : NAN;
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        double x = accept_read_number(json_array_get(gpus, i), key);
        least = isnan(x) || x < least ? x : least;
        if (isnan(x))
            break;
    }
    return accept_result_number(r, name, unit, ACCEPT_HIGHER, least * scale);
}

static enum status add_gpus(const json_t *gpus, struct accept_result *r)
{
    for (size_t i = 0; i < json_array_size(gpus); i++)
        TRY(add_text(r, "gpu", json_object_get(json_array_get(gpus, i), "name")));
    TRY(add_text(r, "driver", json_object_get(json_array_get(gpus, 0), "driver")));
    TRY(add_least(gpus, "memory_bytes", "gpu_memory_gib", "GiB", 0x1p-30, r));
    TRY(add_least(gpus, "power_limit_w", "power_limit_w", "W", 1, r));
    TRY(add_least(gpus, "pcie_generation", "pcie_generation", "", 1, r));
    return add_least(gpus, "pcie_width", "pcie_width", "", 1, r);
}

enum status accept_read_facts(const struct accept_spec *spec, const struct accept_check *check,
                              const json_t *output, const char *dir, struct accept_result *r)
{
    (void)check, (void)dir;
    const json_t *host = json_object_get(output, "host"), *cpu = json_object_get(host, "cpu");
    const json_t *libraries = json_object_get(output, "libraries");
    const char *key;
    json_t *value;
    TRY(add_devices(spec, json_object_get(output, "devices"), r));
    TRY(add_text(r, "cpu", json_object_get(cpu, "model")));
    TRY(accept_result_number(r, "sockets", "", ACCEPT_HIGHER, accept_read_number(cpu, "sockets")));
    TRY(accept_result_number(r, "cores", "", ACCEPT_HIGHER, accept_read_number(cpu, "cores")));
    TRY(accept_result_number(r, "threads", "", ACCEPT_HIGHER, accept_read_number(cpu, "threads")));
    TRY(accept_result_number(r, "usable_threads", "", ACCEPT_HIGHER,
                             accept_read_number(cpu, "usable")));
    TRY(accept_result_number(r, "memory_gib", "GiB", ACCEPT_HIGHER,
                             accept_read_number(host, "memory_bytes") * 0x1p-30));
    TRY(add_text(r, "governor", json_object_get(cpu, "governor")));
    TRY(add_text(r, "os", json_object_get(host, "os")));
    TRY(add_text(r, "kernel", json_object_get(host, "kernel")));
    TRY(add_text(r, "ampscale", json_object_get(output, "version")));
    json_object_foreach((json_t *)libraries, key, value)
    {
        char name[ACCEPT_NAME_SIZE];
        snprintf(name, sizeof name, "library_%.40s", key);
        TRY(add_text(r, name, value));
    }
    return add_gpus(json_object_get(output, "gpus"), r);
}

/* --- verification --- */

/* How many cases there are, and how many do not hold. */
static enum status add_cases(const json_t *output, struct accept_result *r)
{
    size_t i;
    json_t *c;
    int wrong = 0;
    const json_t *cases = json_object_get(output, "cases");
    if (json_array_size(cases) == 0)
        return status_fail(STATUS_DATA, "the self-test tells of no case");
    json_array_foreach((json_t *)cases, i, c)
    {
        wrong += !json_is_true(json_object_get(c, "ok"));
    }
    TRY(accept_result_number(r, "cases", "", ACCEPT_HIGHER, (double)json_array_size(cases)));
    return accept_result_number(r, "wrong", "", ACCEPT_LOWER, wrong);
}

enum status accept_read_selftest(const struct accept_spec *spec, const struct accept_check *check,
                                 const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    return add_cases(output, r);
}

enum status accept_read_determinism(const struct accept_spec *spec,
                                    const struct accept_check *check, const json_t *output,
                                    const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *c;
    TRY(add_cases(output, r));
    json_array_foreach(json_object_get(output, "cases"), i, c)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *arch = json_string_value(json_object_get(c, "arch"));
        const char *precision = json_string_value(json_object_get(c, "precision"));
        if (!arch || !precision)
            continue;
        const char *what = json_is_true(json_object_get(c, "ok")) ? "bits" : "difference";
        snprintf(name, sizeof name, "%s_%.20s_%.0f_%.8s", what, arch,
                 accept_read_number(c, "image_size"), precision);
        TRY(add_text(r, name, json_object_get(c, what)));
    }
    return STATUS_OK;
}

/* --- benchmarks --- */

enum status accept_read_peak(const struct accept_spec *spec, const struct accept_check *check,
                             const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *row;
    double largest = 0, bandwidth = NAN;
    json_array_foreach(json_object_get(output, "copy"), i, row)
    {
        if (!(accept_read_number(row, "bytes") > largest))
            continue;
        largest = accept_read_number(row, "bytes");
        bandwidth = accept_read_number(row, "bytes_per_s");
    }
    TRY(accept_result_number(r, "bandwidth", "GB/s", ACCEPT_HIGHER, bandwidth * 1e-9));
    json_array_foreach(json_object_get(output, "flops"), i, row)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *type = json_string_value(json_object_get(row, "type"));
        snprintf(name, sizeof name, "products_%.16s", type ? type : "unknown");
        TRY(accept_result_number(r, name, "TFLOP/s", ACCEPT_HIGHER,
                                 accept_read_number(row, "flops_per_s") * 1e-12));
    }
    return STATUS_OK;
}

enum status accept_read_memory(const struct accept_spec *spec, const struct accept_check *check,
                               const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *row;
    double wrong = 0;
    json_array_foreach(json_object_get(output, "rows"), i, row)
    {
        const char *kernel = json_string_value(json_object_get(row, "kernel"));
        if (!kernel)
            continue;
        wrong += accept_read_number(row, "wrong");
        TRY(accept_result_number(r, kernel, "GB/s", ACCEPT_HIGHER,
                                 accept_read_number(row, "median_gb_per_s")));
    }
    return i > 0 ? accept_result_number(r, "wrong", "", ACCEPT_LOWER, wrong) : STATUS_OK;
}

/* Each way between two devices is a metric: a link that is slow in one direction shows. */
enum status accept_read_peers(const struct accept_spec *spec, const struct accept_check *check,
                              const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *pair;
    double wrong = 0;
    int pairs = 0, direct = 0;
    json_array_foreach(json_object_get(output, "pairs"), i, pair)
    {
        char name[ACCEPT_NAME_SIZE];
        double from = accept_read_number(pair, "from"), to = accept_read_number(pair, "to");
        if (isnan(from) || isnan(to))
            continue;
        pairs++;
        direct += json_is_true(json_object_get(pair, "direct"));
        wrong += accept_read_number(pair, "wrong");
        snprintf(name, sizeof name, "copy_%.0f_%.0f", from, to);
        TRY(accept_result_number(r, name, "GB/s", ACCEPT_HIGHER,
                                 accept_read_number(pair, "median_gb_per_s")));
    }
    if (pairs == 0)
        return status_fail(STATUS_DATA, "the benchmark tells of no pair of devices");
    TRY(accept_result_number(r, "pairs", "", ACCEPT_HIGHER, pairs));
    TRY(accept_result_number(r, "direct", "", ACCEPT_HIGHER, direct));
    return accept_result_number(r, "wrong", "", ACCEPT_LOWER, wrong);
}

/* A row is wrong where what was timed is not shown to have taken place. */
enum status accept_read_overhead(const struct accept_spec *spec, const struct accept_check *check,
                                 const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *row;
    int rows = 0, wrong = 0;
    json_array_foreach(json_object_get(output, "rows"), i, row)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *what = json_string_value(json_object_get(row, "what"));
        double seconds = accept_read_number(json_object_get(row, "seconds"), "median");
        if (!what)
            continue;
        rows++;
        wrong += !json_is_true(json_object_get(row, "valid"));
        snprintf(name, sizeof name, "%.32s_us", what);
        TRY(accept_result_number(r, name, "us", ACCEPT_LOWER, seconds * 1e6));
    }
    if (rows == 0)
        return status_fail(STATUS_DATA, "the benchmark tells of no call");
    return accept_result_number(r, "wrong", "", ACCEPT_LOWER, wrong);
}

/* Adds the seconds of one operation to those of its kind; false for what does not tell them. */
static bool add_operation(json_t *kinds, const json_t *step)
{
    const char *op = json_string_value(json_object_get(step, "op"));
    double seconds = accept_read_number(step, "seconds");
    if (!op || isnan(seconds))
        return false;
    double sum = seconds + json_real_value(json_object_get(kinds, op));
    return json_object_set_new(kinds, op, json_real(sum)) == 0;
}

/* Milliseconds of all operations, and of each kind, and which share of the time is the least that
 * the peaks allow; operations without such a bound count by their time alone. */
static enum status add_steps(const json_t *steps, json_t *kinds, struct accept_result *r)
{
    size_t i;
    json_t *value;
    const char *op;
    double seconds = 0, bound = 0;
    json_array_foreach((json_t *)steps, i, value)
    {
        double least = accept_read_number(value, "bound_s");
        if (!add_operation(kinds, value))
            return status_fail(STATUS_DATA, "operation %zu of the step has no time", i);
        seconds += accept_read_number(value, "seconds");
        bound += isnan(least) ? 0 : least;
    }
    if (!(seconds > 0))
        return status_fail(STATUS_DATA, "the benchmark tells of no operation");
    TRY(accept_result_number(r, "step_ms", "ms", ACCEPT_LOWER, seconds * 1e3));
    TRY(accept_result_number(r, "of_peak", "%", ACCEPT_HIGHER, 100 * bound / seconds));
    json_object_foreach(kinds, op, value)
    {
        char name[ACCEPT_NAME_SIZE];
        snprintf(name, sizeof name, "%.40s_ms", op);
        TRY(accept_result_number(r, name, "ms", ACCEPT_LOWER, json_real_value(value) * 1e3));
    }
    return STATUS_OK;
}

/* Images/s that the peaks allow. */
static enum status add_bound(const json_t *output, struct accept_result *r)
{
    const struct accept_metric *ms = accept_metric_find(r, "step_ms"),
                               *share = accept_metric_find(r, "of_peak");
    double bound_s = 1e-5 * ms->number[ms->n - 1] * share->number[share->n - 1];
    return accept_result_number(r, "bound_images_per_s", "images/s", ACCEPT_HIGHER,
                                accept_read_number(output, "batch") / bound_s);
}

enum status accept_read_step(const struct accept_spec *spec, const struct accept_check *check,
                             const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    json_t *kinds = json_object();
    enum status st = kinds ? add_steps(json_object_get(output, "steps"), kinds, r)
                           : status_fail(STATUS_OOM, "no memory for the operations of a step");
    json_decref(kinds);
    TRY(st);
    TRY(add_text(r, "precision", json_object_get(output, "precision")));
    TRY(accept_result_number(r, "batch", "images", ACCEPT_EVEN,
                             accept_read_number(output, "batch")));
    return add_bound(output, r);
}

/* FLOPs over seconds of all products in one type, each as often as the network has it; NAN where
 * one of them was not measured. */
static double gemm_rate(const json_t *rows, const char *type)
{
    double flops = 0, seconds = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *of = json_object_get(row, "type");
        double count = accept_read_number(row, "count");
        if (!json_is_string(of) || strcmp(json_string_value(of), type) != 0)
            continue;
        flops += count * accept_read_number(row, "flops");
        seconds += count * accept_read_number(json_object_get(row, "seconds"), "median");
    }
    return seconds > 0 ? flops / seconds : NAN;
}

enum status accept_read_gemm(const struct accept_spec *spec, const struct accept_check *check,
                             const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    static const char *const types[] = {"fp32", "tf32", "fp16", "bf16"};
    const json_t *rows = json_object_get(output, "rows");
    double wrong = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char name[ACCEPT_NAME_SIZE];
        snprintf(name, sizeof name, "products_%s", types[t]);
        TRY(accept_result_number(r, name, "TFLOP/s", ACCEPT_HIGHER,
                                 gemm_rate(rows, types[t]) * 1e-12));
    }
    for (size_t i = 0; i < json_array_size(rows); i++)
        wrong += accept_read_number(json_array_get(rows, i), "wrong");
    return accept_result_number(r, "wrong", "", ACCEPT_LOWER, wrong);
}

enum status accept_read_optimizer(const struct accept_spec *spec, const struct accept_check *check,
                                  const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(output, "rows"), i, row)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *precision = json_string_value(json_object_get(row, "precision"));
        snprintf(name, sizeof name, "update_%.16s", precision ? precision : "unknown");
        TRY(accept_result_number(r, name, "GB/s", ACCEPT_HIGHER,
                                 accept_read_number(row, "gb_per_s")));
    }
    return STATUS_OK;
}

/* Stages are told once for files from storage and once for those in memory, and for each number of
 * threads. */
enum status accept_read_input(const struct accept_spec *spec, const struct accept_check *check,
                              const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(output, "rows"), i, row)
    {
        char name[ACCEPT_NAME_SIZE];
        const char *stage = json_string_value(json_object_get(row, "stage"));
        const char *from = json_string_value(json_object_get(row, "from"));
        if (!stage || !from)
            continue;
        snprintf(name, sizeof name, "%.16s_%.16s_%.0f", stage, from,
                 accept_read_number(row, "threads"));
        for (char *c = name; *c; c++)
            *c = *c == ' ' ? '_' : *c;
        TRY(accept_result_number(r, name, "images/s", ACCEPT_HIGHER,
                                 accept_read_number(row, "images_per_s")));
    }
    return STATUS_OK;
}

enum status accept_read_conv(const struct accept_spec *spec, const struct accept_check *check,
                             const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    return accept_result_number(r, "images_per_s", "images/s", ACCEPT_HIGHER,
                                accept_read_number(output, "bound_images_per_s"));
}

enum status accept_read_collective(const struct accept_spec *spec, const struct accept_check *check,
                                   const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    static const struct {
        const char *key, *name;
    } place[] = {{"out_of_place", "out"}, {"in_place", "in"}};
    size_t i;
    json_t *row;
    TRY(accept_result_number(r, "wrong", "", ACCEPT_LOWER, accept_read_number(output, "wrong")));
    json_array_foreach(json_object_get(output, "rows"), i, row)
    {
        for (size_t p = 0; p < 2; p++) {
            char name[ACCEPT_NAME_SIZE];
            const json_t *time = json_object_get(row, place[p].key);
            snprintf(name, sizeof name, "busbw_%.0f_%s", accept_read_number(row, "bytes"),
                     place[p].name);
            TRY(accept_result_number(r, name, "GB/s", ACCEPT_HIGHER,
                                     accept_read_number(time, "busbw")));
        }
    }
    return STATUS_OK;
}
