/* GPUs, through NVIDIA's management library (NVML).
 *
 * The library is part of the driver, so every machine that can compute on a GPU has it. dlopen
 * loads it by its name. This file declares the two structs and the functions that it uses; their
 * signatures (nvml.h of the CUDA toolkit) have not changed since NVML 11. If the driver lacks a
 * function, or the GPU does not support it, the sensor is not measured. */
#include "telemetry/meter.h"

#include "base/array.h"
#include "base/json.h"
#include "base/rng.h"
#include "telemetry/xid.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_GPU_NOT_FOUND = 28,
};
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_MEMORY_ERROR_CORRECTED = 0, NVML_MEMORY_ERROR_UNCORRECTED = 1 };
enum { NVML_VOLATILE_ECC = 0 }; /* errors since the driver was loaded */
enum { NVML_PCIE_TX_BYTES = 0, NVML_PCIE_RX_BYTES = 1 };
enum { NVML_TEXT_MAX = 96 };

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

typedef void *nvml_gpu;
typedef int nvml_get_uint(nvml_gpu gpu, unsigned *value);
typedef int nvml_get_uint_of(nvml_gpu gpu, int which, unsigned *value);
typedef int nvml_get_u64(nvml_gpu gpu, unsigned long long *value);
typedef int nvml_get_text(nvml_gpu gpu, char *text, unsigned size);

/* The loaded library and its functions; a pointer is NULL if the library lacks the function. */
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int code);
    int (*driver)(char *text, unsigned size);
    int (*by_index)(unsigned index, nvml_gpu *gpu);
    int (*by_bus)(const char *bus, nvml_gpu *gpu);
    nvml_get_text *name, *uuid;
    nvml_get_uint_of *clock, *max_clock, *temperature, *pcie_bytes;
    nvml_get_uint *power, *power_limit, *pcie_generation, *pcie_width, *max_pcie_generation,
        *max_pcie_width;
    nvml_get_u64 *energy, *throttle;
    int (*ecc)(nvml_gpu gpu, int kind, int counter, unsigned long long *value);
    int (*memory)(nvml_gpu gpu, struct nvml_memory *value);
    int (*remapped)(nvml_gpu gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                    unsigned *failed);
    int (*utilization)(nvml_gpu gpu, struct nvml_utilization *value);
};

struct gpu {
    nvml_gpu handle;
    int index;    /* CUDA's number of the device */
    char bus[32]; /* its PCI address; "": not known */
    double joules_before;
    bool lost;
};

struct nvml_meter {
    struct meter base;
    struct nvml nvml;
    bool initialized;
    struct gpu *gpu; /* (base.n) */
};

/* ISO C has no cast from an object pointer to a function pointer; POSIX lets the result of dlsym be
 * written through a void **. */
static void find(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
}

static void find_functions(struct nvml *n)
{
    void *l = n->library;
    find(l, "nvmlInit_v2", &n->init);
    find(l, "nvmlShutdown", &n->shutdown);
    find(l, "nvmlErrorString", &n->error);
    find(l, "nvmlSystemGetDriverVersion", &n->driver);
    find(l, "nvmlDeviceGetHandleByIndex_v2", &n->by_index);
    find(l, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus);
    find(l, "nvmlDeviceGetName", &n->name);
    find(l, "nvmlDeviceGetUUID", &n->uuid);
    find(l, "nvmlDeviceGetClockInfo", &n->clock);
    find(l, "nvmlDeviceGetMaxClockInfo", &n->max_clock);
    find(l, "nvmlDeviceGetTemperature", &n->temperature);
    find(l, "nvmlDeviceGetPcieThroughput", &n->pcie_bytes);
    find(l, "nvmlDeviceGetPowerUsage", &n->power);
    find(l, "nvmlDeviceGetEnforcedPowerLimit", &n->power_limit);
    find(l, "nvmlDeviceGetCurrPcieLinkGeneration", &n->pcie_generation);
    find(l, "nvmlDeviceGetCurrPcieLinkWidth", &n->pcie_width);
    find(l, "nvmlDeviceGetMaxPcieLinkGeneration", &n->max_pcie_generation);
    find(l, "nvmlDeviceGetMaxPcieLinkWidth", &n->max_pcie_width);
    find(l, "nvmlDeviceGetRemappedRows", &n->remapped);
    find(l, "nvmlDeviceGetTotalEnergyConsumption", &n->energy);
    find(l, "nvmlDeviceGetCurrentClocksEventReasons", &n->throttle);
    if (!n->throttle) /* name of the function before driver 535 */
        find(l, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->throttle);
    find(l, "nvmlDeviceGetTotalEccErrors", &n->ecc);
    find(l, "nvmlDeviceGetMemoryInfo", &n->memory);
    find(l, "nvmlDeviceGetUtilizationRates", &n->utilization);
}

static const char *error_text(const struct nvml *n, int code)
{
    const char *text = n->error ? n->error(code) : NULL;
    return text ? text : "unknown error";
}

/* Finds the PCI address of CUDA device `index`. NVML numbers all GPUs of the host, but
 * CUDA_VISIBLE_DEVICES may hide and reorder the devices that CUDA numbers. Calls the driver
 * library; a process that computes on a GPU has already loaded and initialised it. Returns false if
 * the library is missing. */
static bool cuda_bus(int index, char bus[32])
{
    int (*init)(unsigned), (*get)(int *, int), (*bus_id)(char *, int, int);
    int device;
    /* After cuInit, the driver library has threads of its own. NODELETE keeps dlclose from
     * unloading the library while they run. */
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cuda)
        return false;
    find(cuda, "cuInit", &init);
    find(cuda, "cuDeviceGet", &get);
    find(cuda, "cuDeviceGetPCIBusId", &bus_id);
    bool ok = init && get && bus_id && init(0) == 0 && get(&device, index) == 0 &&
              bus_id(bus, 32, device) == 0;
    dlclose(cuda);
    return ok;
}

static enum status find_gpu(struct nvml_meter *m, struct gpu *g)
{
    const struct nvml *n = &m->nvml;
    int code;
    if (!cuda_bus(g->index, g->bus))
        *g->bus = '\0';
    if (n->by_bus && *g->bus)
        code = n->by_bus(g->bus, &g->handle);
    else
        code = n->by_index((unsigned)g->index, &g->handle);
    if (code != NVML_SUCCESS)
        return status_fail(STATUS_UNSUPPORTED, "no telemetry of GPU %d: %s", g->index,
                           error_text(n, code));
    return STATUS_OK;
}

static enum status load(struct nvml_meter *m)
{
    struct nvml *n = &m->nvml;
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return status_fail(STATUS_UNSUPPORTED,
                           "cannot load libnvidia-ml.so.1, a part of NVIDIA's driver: %s",
                           dlerror());
    find_functions(n);
    if (!n->init || !n->by_index)
        return status_fail(STATUS_UNSUPPORTED, "libnvidia-ml.so.1 is too old: it lacks %s",
                           n->init ? "nvmlDeviceGetHandleByIndex_v2" : "nvmlInit_v2");
    int code = n->init();
    if (code != NVML_SUCCESS)
        return status_fail(STATUS_UNSUPPORTED, "cannot initialise NVML: %s", error_text(n, code));
    m->initialized = true;
    return STATUS_OK;
}

/* Returns whether a call succeeded. If the GPU is lost, marks it as lost; a lost GPU is not called
 * again. */
static bool good(struct nvml_meter *m, struct gpu *g, int code)
{
    if (code == NVML_SUCCESS)
        return true;
    if (code != NVML_ERROR_GPU_IS_LOST && code != NVML_ERROR_RESET_REQUIRED &&
        code != NVML_ERROR_GPU_NOT_FOUND)
        return false;
    g->lost = true;
    if (!*m->base.lost)
        snprintf(m->base.lost, sizeof m->base.lost, "GPU %d stopped answering: %s", g->index,
                 error_text(&m->nvml, code));
    return false;
}

static double read_uint(struct nvml_meter *m, struct gpu *g, nvml_get_uint *get, double unit)
{
    unsigned v;
    return get && !g->lost && good(m, g, get(g->handle, &v)) ? v * unit : NAN;
}

static double read_uint_of(struct nvml_meter *m, struct gpu *g, nvml_get_uint_of *get, int which,
                           double unit)
{
    unsigned v;
    return get && !g->lost && good(m, g, get(g->handle, which, &v)) ? v * unit : NAN;
}

static double read_u64(struct nvml_meter *m, struct gpu *g, nvml_get_u64 *get, double unit)
{
    unsigned long long v;
    return get && !g->lost && good(m, g, get(g->handle, &v)) ? (double)v * unit : NAN;
}

static double read_ecc(struct nvml_meter *m, struct gpu *g, int kind)
{
    unsigned long long v;
    if (!m->nvml.ecc || g->lost)
        return NAN;
    return good(m, g, m->nvml.ecc(g->handle, kind, NVML_VOLATILE_ECC, &v)) ? (double)v : NAN;
}

static double nvml_joules(struct meter *base, int i)
{
    struct nvml_meter *m = (struct nvml_meter *)base;
    struct gpu *g = &m->gpu[i];
    return read_u64(m, g, m->nvml.energy, 1e-3) - g->joules_before;
}

static void nvml_sample(struct meter *base, int i, struct telemetry_record *row)
{
    struct nvml_meter *m = (struct nvml_meter *)base;
    const struct nvml *n = &m->nvml;
    struct gpu *g = &m->gpu[i];
    struct nvml_memory memory;
    struct nvml_utilization load;
    row->clock_mhz = read_uint_of(m, g, n->clock, NVML_CLOCK_SM, 1);
    row->memory_clock_mhz = read_uint_of(m, g, n->clock, NVML_CLOCK_MEM, 1);
    row->power_w = read_uint(m, g, n->power, 1e-3);
    row->energy_j = nvml_joules(base, i);
    row->temperature_c = read_uint_of(m, g, n->temperature, NVML_TEMPERATURE_GPU, 1);
    row->throttle = read_u64(m, g, n->throttle, 1);
    row->ecc_corrected = read_ecc(m, g, NVML_MEMORY_ERROR_CORRECTED);
    row->ecc_uncorrected = read_ecc(m, g, NVML_MEMORY_ERROR_UNCORRECTED);
    if (n->memory && !g->lost && good(m, g, n->memory(g->handle, &memory)))
        row->memory_bytes = (double)memory.used;
    if (n->utilization && !g->lost && good(m, g, n->utilization(g->handle, &load))) {
        row->busy = load.gpu;
        row->memory_busy = load.memory;
    }
    row->pcie_sent = read_uint_of(m, g, n->pcie_bytes, NVML_PCIE_TX_BYTES, 1e3);
    row->pcie_received = read_uint_of(m, g, n->pcie_bytes, NVML_PCIE_RX_BYTES, 1e3);
}

static void put_text(json_t *o, const char *key, const char text[NVML_TEXT_MAX])
{
    json_put(o, key, json_stringn(text, strnlen(text, NVML_TEXT_MAX)));
}

/* Rows of memory that errors made the GPU replace, and whether that needs a reset or has failed. */
static void put_rows(json_t *o, struct nvml_meter *m, struct gpu *g)
{
    unsigned corrected, uncorrected, pending, failed;
    if (!m->nvml.remapped || g->lost ||
        !good(m, g, m->nvml.remapped(g->handle, &corrected, &uncorrected, &pending, &failed)))
        return;
    json_put_known(o, "remapped_rows", (double)corrected + uncorrected);
    json_put_known(o, "remapping_pending", pending);
    json_put_known(o, "remapping_failed", failed);
}

static void put_facts(json_t *o, struct nvml_meter *m, struct gpu *g)
{
    const struct nvml *n = &m->nvml;
    struct nvml_memory memory;
    char text[NVML_TEXT_MAX] = "";
    json_put(o, "index", json_integer(g->index));
    if (n->name && good(m, g, n->name(g->handle, text, sizeof text)))
        put_text(o, "name", text);
    if (n->driver && n->driver(text, sizeof text) == NVML_SUCCESS)
        put_text(o, "driver", text);
    if (n->uuid && good(m, g, n->uuid(g->handle, text, sizeof text))) {
        /* The hash shows whether two runs used the same card. It does not reveal the UUID. */
        text[NVML_TEXT_MAX - 1] = '\0';
        uint64_t hash = hash_splitmix64(hash_fnv1a64(text));
        json_put(o, "uuid_hash", json_sprintf("%016" PRIx64, hash));
    }
    if (n->memory && good(m, g, n->memory(g->handle, &memory)))
        json_put_known(o, "memory_bytes", (double)memory.total);
    if (*g->bus)
        json_put_known(o, "xid_errors", xid_of_host(g->bus));
    json_put_known(o, "power_limit_w", read_uint(m, g, n->power_limit, 1e-3));
    json_put_known(o, "max_clock_mhz", read_uint_of(m, g, n->max_clock, NVML_CLOCK_SM, 1));
    json_put_known(o, "max_memory_clock_mhz", read_uint_of(m, g, n->max_clock, NVML_CLOCK_MEM, 1));
    json_put_known(o, "pcie_generation", read_uint(m, g, n->pcie_generation, 1));
    json_put_known(o, "pcie_width", read_uint(m, g, n->pcie_width, 1));
    json_put_known(o, "max_pcie_generation", read_uint(m, g, n->max_pcie_generation, 1));
    json_put_known(o, "max_pcie_width", read_uint(m, g, n->max_pcie_width, 1));
    put_rows(o, m, g);
}

static json_t *nvml_facts(struct meter *base, int i)
{
    struct nvml_meter *m = (struct nvml_meter *)base;
    json_t *o = json_object();
    put_facts(o, m, &m->gpu[i]);
    return o;
}

static void nvml_close(struct meter *base)
{
    struct nvml_meter *m = (struct nvml_meter *)base;
    if (m->initialized && m->nvml.shutdown)
        m->nvml.shutdown();
    if (m->nvml.library)
        dlclose(m->nvml.library);
    free(m->gpu);
    free(m);
}

enum status nvml_meter_open(const int *index, int n, struct meter **out)
{
    enum status st;
    struct nvml_meter *m;
    TRY(array_new(&m, 1));
    m->base = (struct meter){.source = "nvml",
                             .n = n,
                             .sample = nvml_sample,
                             .joules = nvml_joules,
                             .facts = nvml_facts,
                             .close = nvml_close};
    CHECK(array_new(&m->gpu, n));
    CHECK(load(m));
    for (int i = 0; i < n; i++) {
        m->gpu[i].index = index[i];
        CHECK(find_gpu(m, &m->gpu[i]));
        m->gpu[i].joules_before = nvml_joules(&m->base, i);
    }
    *out = &m->base;
    return STATUS_OK;
done:
    nvml_close(&m->base);
    return st;
}
