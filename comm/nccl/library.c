/* Loads NCCL. */
#include "comm/nccl/port.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum status nccl_library_load(const char *file, struct nccl_library *lib)
{
#define SYMBOL(function) {#function, offsetof(struct nccl_library, function)},
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {NCCL_FUNCTIONS(SYMBOL) SYMBOL(ncclCommRegister) SYMBOL(ncclCommDeregister)};
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return status_fail(STATUS_UNSUPPORTED,
                           "NCCL cannot be loaded (%s); install libnccl2, or use --comm host",
                           dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *at = dlsym(handle, symbols[i].name);
        if (!at && symbols[i].offset < offsetof(struct nccl_library, ncclCommRegister))
            return status_fail(STATUS_UNSUPPORTED,
                               "'%s' has no '%s': it is not NCCL 2.14 or later; install a newer "
                               "libnccl2, or use --comm host",
                               file, symbols[i].name);
        memcpy((char *)lib + symbols[i].offset, &at, sizeof at);
    }
    return STATUS_OK;
}
