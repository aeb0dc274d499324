/* Finds the JPEG decoder of a GPU, in the CUDA module. */
#include "engine/gpu_decoder.h"

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
