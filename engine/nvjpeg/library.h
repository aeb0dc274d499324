/* Inside the CUDA module: the functions of nvJPEG that decoder.c calls.
 *
 * The types and numbers are those of nvjpeg.h, the header of nvJPEG. CUDA 12 and 13 have the same
 * interface. The header itself is not needed to build. The library is loaded when a decoder is
 * first requested. */
#pragma once

#include "base/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct nvjpegHandle;
struct nvjpegJpegState;
struct nvjpegJpegStream;

/* Values of nvjpegStatus_t, nvjpegBackend_t and nvjpegOutputFormat_t. */
enum {
    NVJPEG_SUCCESS = 0,
    NVJPEG_BAD_JPEG = 3,
    NVJPEG_NOT_SUPPORTED = 4,
    NVJPEG_EXECUTION_FAILED = 6,
    NVJPEG_ARCH_MISMATCH = 7,
    NVJPEG_HARDWARE = 3, /* NVJPEG_BACKEND_HARDWARE */
    NVJPEG_RGBI = 5,     /* NVJPEG_OUTPUT_RGBI: (height, width, 3) */
};

/* nvjpegImage_t */
struct nvjpeg_image {
    unsigned char *channel[4];
    size_t pitch[4];
};

struct nvjpeg_library {
    /* nvjpegGetProperty: property 0 is the major version, 1 the minor version, 2 the patch level.
     */
    int (*get_property)(int property, int *value);
    /* nvjpegCreateEx; if an allocator is NULL, the library uses CUDA's allocator. */
    int (*create)(int backend, void *device_allocator, void *pinned_allocator, unsigned flags,
                  struct nvjpegHandle **handle);
    int (*destroy)(struct nvjpegHandle *handle);
    /* nvjpegGetHardwareDecoderInfo; NULL before CUDA 12. */
    int (*hardware)(struct nvjpegHandle *handle, unsigned *engines, unsigned *cores_per_engine);
    /* nvjpegJpegStateCreate, nvjpegJpegStateDestroy */
    int (*state_create)(struct nvjpegHandle *handle, struct nvjpegJpegState **state);
    int (*state_destroy)(struct nvjpegJpegState *state);
    /* nvjpegJpegStreamCreate, nvjpegJpegStreamDestroy, nvjpegJpegStreamParse */
    int (*parser_create)(struct nvjpegHandle *handle, struct nvjpegJpegStream **parser);
    int (*parser_destroy)(struct nvjpegJpegStream *parser);
    int (*parse)(struct nvjpegHandle *handle, const unsigned char *bytes, size_t size,
                 int save_metadata, int save_stream, struct nvjpegJpegStream *parser);
    /* nvjpegDecodeBatchedSupported: *unsupported is 0 for a file that the hardware decodes. */
    int (*supported)(struct nvjpegHandle *handle, struct nvjpegJpegStream *parser,
                     int *unsupported);
    /* nvjpegDecodeBatchedInitialize, nvjpegDecodeBatched */
    int (*begin)(struct nvjpegHandle *handle, struct nvjpegJpegState *state, int n, int cpu_threads,
                 int format);
    int (*decode)(struct nvjpegHandle *handle, struct nvjpegJpegState *state,
                  const unsigned char *const *bytes, const size_t *size,
                  struct nvjpeg_image *picture, struct CUstream_st *stream);
};

/* Loads the library; it stays loaded. STATUS_UNSUPPORTED: the library is missing or too old. */
MUST_CHECK enum status nvjpeg_library_load(struct nvjpeg_library *lib);

#ifdef __cplusplus
}
#endif
