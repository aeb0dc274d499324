/* Finds the JPEG decoder of a GPU in the CUDA module, and makes a loader use a device's host memory
 * and decoder. */
#include "engine/device_input.h"

#include "config.h"
#include "kernels/module.h"

#include <string.h>

enum status gpu_decoder_open(struct device *dev, struct device_decoder **decoder)
{
    nvjpeg_module_entry *entry;
    *decoder = NULL;
    if (strcmp(dev->backend->name, "cuda") != 0)
        return status_fail(STATUS_UNSUPPORTED, "device '%s' is no GPU", dev->backend->name);
    TRY(cuda_module_function(NVJPEG_MODULE_ENTRY, (void **)&entry));
    return entry(AMPSCALE_MODULE_ABI, dev, decoder);
}

void gpu_decoder_drop(struct device_decoder *decoder)
{
    if (decoder)
        decoder->drop(decoder);
}

static enum status alloc_host(void *context, size_t bytes, void **mem)
{
    struct device *dev = context;
    return dev->backend->alloc_host(dev, bytes, mem);
}

static void free_host(void *context, void *mem)
{
    struct device *dev = context;
    dev->backend->free_host(dev, mem);
}

void device_input_set(struct loader_config *loader, struct device *dev,
                      struct device_decoder *decoder)
{
    loader->alloc = alloc_host;
    loader->free = free_host;
    loader->alloc_context = dev;
    loader->decoder = decoder;
}
