/* The CUDA backend as a module. The program loads the module when it first needs a CUDA device, so
 * a run on a CPU never loads it, and the same build runs on machines with and without a GPU.
 *
 * The module is a shared object that exports `cuda_module_entry`, and may export more functions.
 * The module calls functions of the program (status messages, checks of descriptions), so the
 * program must export them (CMake: link ampscale_module_host). */
#pragma once

#include "kernels/backend.h"
#include "kernels/gpu_description.h"

#define CUDA_MODULE_FILE  "ampscale_cuda.so"
#define CUDA_MODULE_ENTRY "ampscale_cuda_backend"

/* Returns the backend if the module was built with the same `abi` (AMPSCALE_MODULE_ABI of config.h,
 * a hash of the headers that both sides must agree on), else NULL. */
typedef const struct backend *cuda_module_entry(unsigned abi);

/* Opens a device for a GPU that is described instead of present: it plans, and executes nothing.
 * `cuda` is the module's backend; `gpu` is copied. */
#define CUDA_DESCRIBED_ENTRY "ampscale_cuda_described"
typedef enum status cuda_described_entry(const struct backend *cuda,
                                         const struct gpu_description *gpu, struct device **dev);

/* Loads the module: the file that the environment variable AMPSCALE_CUDA_MODULE names, else the
 * module next to the program, else the installed module. The module stays loaded. If a part is
 * missing, returns STATUS_UNSUPPORTED with one line that names the part: the module, a library that
 * the module needs, or the right version of that library. */
MUST_CHECK enum status cuda_module_load(const struct backend **b);

/* Opens a device for the description, by the module's function. Close it with device_close. */
MUST_CHECK enum status device_open_described(const struct gpu_description *gpu,
                                             struct device **dev);

/* Finds a function that the module exports besides its entry, by name. STATUS_UNSUPPORTED if the
 * module has no function of that name. */
MUST_CHECK enum status cuda_module_function(const char *name, void **function);
