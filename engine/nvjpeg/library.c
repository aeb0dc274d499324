/* Loads nvJPEG. */
#include "engine/nvjpeg/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t offset; /* in struct nvjpeg_library */
    bool optional;
};

#define SYMBOL(name, member, optional)                                                             \
    {                                                                                              \
        name, offsetof(struct nvjpeg_library, member), optional                                    \
    }

static const struct symbol symbols[] = {
    SYMBOL("nvjpegGetProperty", get_property, false),
    SYMBOL("nvjpegCreateEx", create, false),
    SYMBOL("nvjpegDestroy", destroy, false),
    SYMBOL("nvjpegGetHardwareDecoderInfo", hardware, true),
    SYMBOL("nvjpegJpegStateCreate", state_create, false),
    SYMBOL("nvjpegJpegStateDestroy", state_destroy, false),
    SYMBOL("nvjpegJpegStreamCreate", parser_create, false),
    SYMBOL("nvjpegJpegStreamDestroy", parser_destroy, false),
    SYMBOL("nvjpegJpegStreamParse", parse, false),
    SYMBOL("nvjpegDecodeBatchedSupported", supported, false),
    SYMBOL("nvjpegDecodeBatchedInitialize", begin, false),
    SYMBOL("nvjpegDecodeBatched", decode, false),
};

enum status nvjpeg_library_load(struct nvjpeg_library *lib)
{
    void *handle = dlopen("libnvjpeg.so.13", RTLD_NOW | RTLD_LOCAL);
    handle = handle ? handle : dlopen("libnvjpeg.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return status_fail(STATUS_UNSUPPORTED,
                           "nvJPEG cannot be loaded (%s); install libnvjpeg of CUDA 12 or 13",
                           dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *at = dlsym(handle, symbols[i].name);
        if (!at && !symbols[i].optional)
            return status_fail(STATUS_UNSUPPORTED,
                               "libnvjpeg has no '%s'; install libnvjpeg of CUDA 12 or 13",
                               symbols[i].name);
        memcpy((char *)lib + symbols[i].offset, &at, sizeof at);
    }
    return STATUS_OK;
}
