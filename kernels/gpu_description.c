/* Reads descriptions of GPUs. */
#include "kernels/gpu_description.h"

#include "base/json.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

#define GPUS(X) X(a10) X(a100) X(b200) X(h100) X(h200) X(l40) X(rtx5090) X(t4) X(v100)
#define DECLARE(gpu)                                                                               \
    extern const unsigned char gpu_##gpu[];                                                        \
    extern const size_t gpu_##gpu##_size;
GPUS(DECLARE)

static const struct built_in {
    const char *name;
    const unsigned char *text;
    const size_t *size;
} built_in[] = {
#define LIST(gpu) {#gpu, gpu_##gpu, &gpu_##gpu##_size},
    GPUS(LIST)};

enum { BUILT_IN = sizeof built_in / sizeof *built_in };

static enum status unknown_gpu(const char *name)
{
    char known[256] = "";
    for (int i = 0; i < BUILT_IN; i++) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", built_in[i].name);
    }
    return status_fail(STATUS_USAGE,
                       "unknown GPU '%s'; known are %s; or give a file that describes one", name,
                       known);
}

static enum status read_text(const char *name, json_t **text)
{
    *text = NULL;
    if (strpbrk(name, "./"))
        return json_read(name, FILE_MAX, text);
    for (int i = 0; i < BUILT_IN; i++)
        if (strcmp(name, built_in[i].name) == 0)
            return json_parse((const char *)built_in[i].text, *built_in[i].size, name, text);
    return unknown_gpu(name);
}

/* The member `key`, which must be a number within limits. */
static enum status take(const json_t *text, const char *name, const char *key, double most,
                        double *value)
{
    *value = json_number_at(text, key);
    if (*value > 0 && *value <= most)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "'%s' does not describe a GPU: '%s' is missing or not a number above 0 and "
                       "at most %g; give the JSON text that cuDNN writes to describe a device",
                       name, key, most);
}

/* Dense operations of one multiprocessor per clock cycle: tensor_width counts those of the tensor
 * cores in half precision, core_width those of the other cores in fp32. */
static double tensor_width(int sm)
{
    return sm >= 120 ? 512 : sm >= 100 ? 8192 : sm == 90 ? 4096 : sm == 80 ? 2048 : 1024;
}

static double core_width(int sm)
{
    return sm <= 80 ? 128 : 256;
}

static void set_rates(struct gpu_description *g, double bytes_per_s, double half, double fp32)
{
    g->bytes_per_s = bytes_per_s;
    g->flops_per_s[DTYPE_F16] = g->flops_per_s[DTYPE_BF16] = half;
    g->flops_per_s[DTYPE_TF32] = half / 2;
    g->flops_per_s[DTYPE_F32] = fp32;
}

static enum status take_rates(const json_t *text, const char *name, struct gpu_description *g)
{
    static const double copies = 0.875, products = 0.74, cores = 0.9;
    const json_t *measured = json_object_get(text, "rates");
    double clock, memory_clock, width, bytes_per_s, half;
    TRY(take(text, name, "smClockRateKHz", 1e8, &clock));
    TRY(take(text, name, "memClockRateKHz", 1e9, &memory_clock));
    TRY(take(text, name, "memoryBusWidth", 1e6, &width));
    double clocks = clock * 1e3 * g->multiprocessors;
    double fp32 = cores * clocks * core_width(g->sm);
    if (!measured) {
        set_rates(g, copies * 2 * memory_clock * 1e3 * width / 8,
                  products * clocks * tensor_width(g->sm), fp32);
        snprintf(g->source, sizeof g->source, "%s",
                 "peak rates at the GPU's clocks, times the shares that an H200 reaches");
        return STATUS_OK;
    }
    TRY(take(measured, name, "bytes_per_s", 1e15, &bytes_per_s));
    TRY(take(measured, name, "half_flops_per_s", 1e18, &half));
    set_rates(g, bytes_per_s, half, fp32);
    text_clean(g->source, sizeof g->source, json_text_or(measured, "source", "its file"));
    return STATUS_OK;
}

static enum status take_published(const json_t *text, const char *name, struct gpu_description *g)
{
    const json_t *published = json_object_get(text, "published");
    if (!published)
        return STATUS_OK;
    text_clean(g->share_source, sizeof g->share_source,
               json_text_or(published, "source", "its file"));
    return take(published, name, "share", 1, &g->share);
}

/* Stores the text for cuDNN: the given text without its members "rates" and "published". */
static enum status take_properties(json_t *text, const char *name, struct gpu_description *g)
{
    static const char *const ours[] = {"rates", "published"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (json_object_del(text, ours[i]) != 0) { /* there was none */
        }
    char *properties = json_text(text, JSON_COMPACT | JSON_REAL_PRECISION(17));
    bool fits = strlen(properties) < sizeof g->properties;
    if (fits)
        strcpy(g->properties, properties);
    free(properties);
    return fits ? STATUS_OK
                : status_fail(STATUS_DATA, "'%s' does not describe a GPU: it is too long", name);
}

static enum status read_gpu(json_t *text, const char *name, struct gpu_description *g)
{
    double version, multiprocessors;
    const char *device = json_text_at(text, "deviceName");
    if (!*device)
        return status_fail(STATUS_DATA, "'%s' does not describe a GPU: it has no 'deviceName'",
                           name);
    text_clean(g->name, sizeof g->name, device);
    TRY(take(text, name, "deviceVer", 1e4, &version));
    TRY(take(text, name, "multiProcessorCount", 1e4, &multiprocessors));
    TRY(take(text, name, "totalGlobalMem", 1e15, &g->memory));
    TRY(take(text, name, "l2CacheSize", 1e12, &g->l2));
    g->sm = (int)version / 10; /* 900 is 9.0 */
    g->multiprocessors = (int)multiprocessors;
    TRY(take_rates(text, name, g));
    TRY(take_published(text, name, g));
    return take_properties(text, name, g);
}

enum status gpu_description_open(const char *name, struct gpu_description *g)
{
    json_t *text;
    *g = (struct gpu_description){.sm = 0};
    TRY(read_text(name, &text));
    enum status st = read_gpu(text, name, g);
    json_decref(text);
    return st;
}
