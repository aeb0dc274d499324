/* Finds backends by name. The CUDA backend is in a module, which is loaded when it is named. */
#include "kernels/module.h"

#include "base/module.h"
#include "config.h"
#include "kernels/device_list.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

static const struct module_file cuda_module = {
    .name = "CUDA module",
    .file = CUDA_MODULE_FILE,
    .variable = "AMPSCALE_CUDA_MODULE",
    .absent = "device 'cuda' needs the CUDA module '" CUDA_MODULE_FILE
              "', which this build does not have; use --devices cpu, or build it with the CUDA "
              "toolkit and cuDNN installed",
};

enum status cuda_module_load(const struct backend **b)
{
    char path[PATH_MAX];
    void *library;
    *b = NULL;
    TRY(module_open(&cuda_module, path, sizeof path, &library));
    cuda_module_entry *entry;
    *(void **)&entry = dlsym(library, CUDA_MODULE_ENTRY);
    if (!entry)
        return status_fail(STATUS_UNSUPPORTED, "'%s' is not a CUDA module of this program", path);
    *b = entry(AMPSCALE_MODULE_ABI);
    if (!*b)
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module '%s' was built for another version of this program",
                           path);
    return STATUS_OK;
}

enum status cuda_module_function(const char *name, void **function)
{
    char path[PATH_MAX];
    void *library;
    TRY(module_open(&cuda_module, path, sizeof path, &library));
    *function = dlsym(library, name);
    if (*function)
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED, "the CUDA module '%s' has no function '%s'", path, name);
}

enum status device_open_described(const struct gpu_description *gpu, struct device **dev)
{
    const struct backend *cuda;
    cuda_described_entry *entry;
    void *function;
    *dev = NULL;
    TRY(cuda_module_load(&cuda));
    TRY(cuda_module_function(CUDA_DESCRIBED_ENTRY, &function));
    *(void **)&entry = function;
    return entry(cuda, gpu, dev);
}

enum status backend_find(const char *name, const struct backend **b)
{
    *b = NULL;
    if (strcmp(name, "cpu") == 0)
        *b = &backend_cpu;
    else if (strcmp(name, "ref") == 0)
        *b = &backend_ref;
    else if (strcmp(name, "cuda") == 0)
        return cuda_module_load(b);
    else
        return status_fail(STATUS_USAGE, "unknown device '%s'; use cpu, ref or cuda", name);
    return STATUS_OK;
}
