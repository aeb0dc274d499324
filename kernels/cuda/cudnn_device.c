/* Properties of a GPU, from the GPU or from a description of it. */
#include "kernels/cuda/cudnn_device.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_MAX = 64 * 1024 };

#define EMBEDDED(gpu)                                                                              \
    extern const unsigned char device_##gpu[];                                                     \
    extern const size_t device_##gpu##_size
EMBEDDED(a10);
EMBEDDED(a100);
EMBEDDED(b200);
EMBEDDED(h200);
EMBEDDED(l40);
EMBEDDED(rtx5090);
EMBEDDED(t4);

static const struct described {
    const char *name;
    const unsigned char *json;
    const size_t *size;
} described[] = {
    {"t4", device_t4, &device_t4_size},
    {"a10", device_a10, &device_a10_size},
    {"a100", device_a100, &device_a100_size},
    {"l40", device_l40, &device_l40_size},
    {"h200", device_h200, &device_h200_size},
    {"b200", device_b200, &device_b200_size},
    {"rtx5090", device_rtx5090, &device_rtx5090_size},
};
enum { N_DESCRIBED = sizeof described / sizeof *described };

const char *cudnn_device_name(int i)
{
    return i >= 0 && i < N_DESCRIBED ? described[i].name : NULL;
}

/* What cuDNN reads besides name and version; each a whole number, or three. */
static const char *const numbers[] = {
    "version",
    "driverVer",
    "cudaDeviceId",
    "deviceId",
    "totalGlobalMem",
    "regsPerBlock",
    "multiProcessorCount",
    "warpSize",
    "maxSharedMemoryPerBlock",
    "maxSharedMemoryPerBlockOptin",
    "reservedSharedMemoryPerBlock",
    "maxRegistersPerSM",
    "maxCtasPerSM",
    "maxThreadsPerBlock",
    "maxThreadsPerSM",
    "pciDeviceId",
    "isTccDriver",
    "supportCoopLaunch",
    "smClockRateKHz",
    "memClockRateKHz",
    "memoryBusWidth",
    "l2CacheSize",
};
static const char *const triples[] = {"maxGridSize", "maxBlockSize"};

static bool is_number(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool is_triple(const json_t *v)
{
    return json_array_size(v) == 3 && is_number(json_array_get(v, 0)) &&
           is_number(json_array_get(v, 1)) && is_number(json_array_get(v, 2));
}

/* cuDNN is not asked to judge a text from elsewhere: it gets only what is complete. */
static enum status read_properties(const json_t *root, struct cudnn_device *dev)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!is_number(json_object_get(root, numbers[i])))
            return status_fail(STATUS_DATA, "description of a GPU: '%s' is not a whole number",
                               numbers[i]);
    for (size_t i = 0; i < sizeof triples / sizeof *triples; i++)
        if (!is_triple(json_object_get(root, triples[i])))
            return status_fail(STATUS_DATA, "description of a GPU: '%s' is not three whole numbers",
                               triples[i]);
    json_int_t version = json_integer_value(json_object_get(root, "deviceVer"));
    if (version < 100 || version > 99990) /* 900 is compute capability 9.0 */
        return status_fail(STATUS_DATA, "description of a GPU: 'deviceVer' is none");
    const char *name = json_string_value(json_object_get(root, "deviceName"));
    if (!name || !name[0] || strlen(name) >= sizeof dev->name || strpbrk(name, "\n\t|"))
        return status_fail(STATUS_DATA, "description of a GPU: 'deviceName' is not a name");
    snprintf(dev->name, sizeof dev->name, "%s", name);
    dev->sm = (int)(version / 10);
    return STATUS_OK;
}

static enum status parse(const char *json, size_t size, struct cudnn_device *dev)
{
    if (size > JSON_MAX)
        return status_fail(STATUS_DATA, "description of a GPU: %zu bytes are more than make sense",
                           size);
    json_error_t e;
    json_t *root = json_loadb(json, size, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return status_fail(STATUS_DATA, "description of a GPU: not JSON: %s", e.text);
    enum status st = read_properties(root, dev);
    json_decref(root);
    return st;
}

enum status cudnn_device_open_json(const char *json, size_t size, struct cudnn_device *dev)
{
    enum status st;
    *dev = (struct cudnn_device){0};
    TRY(parse(json, size, dev));
    char *text = strndup(json, size); /* the library wants a NUL at the end, and counts it */
    if (!text)
        return status_fail(STATUS_OOM, "no memory for a description of a GPU");
    CHECK(DESC_CREATE(&dev->props, DEVICEPROP));
    CHECK(DESC_SET(&dev->props, DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)size + 1, text));
    CHECK(cudnn_desc_finalize(&dev->props));
done:
    free(text);
    if (st != STATUS_OK)
        cudnn_device_close(dev);
    return st;
}

enum status cudnn_device_open_name(const char *name, struct cudnn_device *dev)
{
    for (int i = 0; i < N_DESCRIBED; i++)
        if (strcmp(described[i].name, name) == 0)
            return cudnn_device_open_json((const char *)described[i].json, *described[i].size, dev);
    char known[256] = "";
    for (int i = 0; i < N_DESCRIBED; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 described[i].name);
    return status_fail(STATUS_USAGE, "unknown GPU '%s'; known: %s", name, known);
}

void cudnn_device_take(cudnnHandle_t handle, const char *name, int sm, struct cudnn_device *dev)
{
    *dev = (struct cudnn_device){.handle = handle, .sm = sm};
    snprintf(dev->name, sizeof dev->name, "%s", name);
}

void cudnn_device_close(struct cudnn_device *dev)
{
    cudnn_desc_destroy(&dev->props);
    *dev = (struct cudnn_device){0};
}
