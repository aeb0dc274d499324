/* Inside comm/: how the CUDA module hands over what links GPUs. */
#ifndef COMM_NCCL_MODULE_H
#define COMM_NCCL_MODULE_H

#include "comm/nccl_port.h"

#define NCCL_MODULE_ENTRY "ampscale_cuda_nccl"

/* A new port, when `abi` is what the module was built with (kernels/module.h). STATUS_UNSUPPORTED
 * with one line that says what is missing. */
typedef enum status nccl_module_entry(unsigned abi, struct nccl_port **port);

#endif
