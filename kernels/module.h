/* The CUDA backend as a module that is loaded when a device of it is first asked for, so that one
 * build serves machines with and without a GPU, and a run on a CPU never loads it.
 *
 * The module is a shared object that exports `cuda_module_entry`, and may export more. It uses this
 * program's own functions (status messages, checks of descriptions): whoever loads it must export
 * them (CMake: link ampscale_module_host). */
#ifndef KERNELS_MODULE_H
#define KERNELS_MODULE_H

#include "kernels/backend.h"

#define CUDA_MODULE_FILE  "ampscale_cuda.so"
#define CUDA_MODULE_ENTRY "ampscale_cuda_backend"

/* The backend, when `abi` is what the module was built with (AMPSCALE_MODULE_ABI of config.h, a
 * hash of the headers that both sides must agree on); else NULL. */
typedef const struct backend *cuda_module_entry(unsigned abi);

/* Loads the module: the file that the environment variable AMPSCALE_CUDA_MODULE names, else the one
 * beside the program or where it is installed. It stays loaded. STATUS_UNSUPPORTED with one line
 * that says what is missing: the module, a library that it needs, or the right version of it. */
MUST_CHECK enum status cuda_module_load(const struct backend **b);

/* A function of the module by its name, with which it hands over what is not the backend's. Where
 * it has none of that name, STATUS_UNSUPPORTED. */
MUST_CHECK enum status cuda_module_function(const char *name, void **function);
#endif
