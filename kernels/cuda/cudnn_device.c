/* Describes a GPU to cuDNN. */
#include "kernels/cuda/cudnn_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if CUDNN_VERSION >= 90800
static enum status set_properties(struct cudnn_desc *props, const char *text)
{
    int64_t size = (int64_t)strlen(text) + 1; /* the library counts the final NUL */
    TRY(DESC_CREATE(props, DEVICEPROP));
    TRY(DESC_SET(props, DEVICEPROP_JSON_REPRESENTATION, CHAR, size, text));
    return cudnn_desc_finalize(props);
}
#else
static enum status set_properties(struct cudnn_desc *props, const char *text)
{
    (void)props;
    (void)text;
    return status_fail(STATUS_UNSUPPORTED,
                       "cuDNN 9.8 or later is needed to plan for an absent GPU");
}
#endif

enum status cudnn_device_describe(const struct gpu_description *gpu, struct cudnn_device *out)
{
    *out = (struct cudnn_device){.sm = gpu->sm};
    snprintf(out->name, sizeof out->name, "%s", gpu->name);
    enum status st = set_properties(&out->props, gpu->properties);
    if (st != STATUS_OK)
        cudnn_desc_destroy(&out->props);
    return st;
}

void cudnn_keep_compiler(void)
{
    char file[32];
    snprintf(file, sizeof file, "libnvrtc.so.%zu", cudnnGetCudartVersion() / 1000);
    (void)dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}
