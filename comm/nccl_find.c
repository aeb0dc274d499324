/* Finding what links GPUs: the CUDA module has it, where it was built with NCCL's header. */
#include "comm/nccl_module.h"
#include "kernels/module.h"

#include <config.h> /* the build's, not this room's */

enum status comm_nccl_find(struct nccl_port **port)
{
    nccl_module_entry *entry;
    *port = NULL;
    if (cuda_module_function(NCCL_MODULE_ENTRY, (void **)&entry) != STATUS_OK)
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module was built without NCCL; build it with libnccl-dev "
                           "installed, or use --comm host");
    return entry(AMPSCALE_MODULE_ABI, port);
}

void comm_nccl_drop(struct nccl_port *port)
{
    if (port)
        port->drop(port);
}
