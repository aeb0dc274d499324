/* Reading the description of a GPU. */
#include "described_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void described_gpu_open(const char *name, struct cudnn_device *dev)
{
    struct gpu_description gpu;
    if (gpu_description_open(name, &gpu) != STATUS_OK ||
        cudnn_device_describe(&gpu, dev) != STATUS_OK)
        fail_msg("%s", status_message());
}

void described_gpu_close(struct cudnn_device *dev)
{
    cudnn_desc_destroy(&dev->props);
}
