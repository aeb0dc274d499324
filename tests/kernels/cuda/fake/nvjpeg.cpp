/* The fake nvJPEG with hardware engines. libjpeg decodes into device memory as soon as the function
 * is called, before work that the stream has not executed yet: the engines of an H100 do so too.
 * The stream is busy for the time that decoding takes. Files that the engines cannot decode are
 * refused, and calls in a wrong order fail. AMPSCALE_FAKE_NVJPEG=absent: the library is missing;
 * no-engines: the GPU has no engines; skips: every third picture of a batch is not decoded, without
 * an error. */
#include "delays.h"
#include "engine/nvjpeg/library.h"
#include "fake.h"
#include "inject.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include <jpeglib.h>

struct nvjpegHandle {
    int device;
};

struct nvjpegJpegState {
    const nvjpegHandle *handle;
    int batch; /* batch size of the next call; 0: not initialized */
};

struct nvjpegJpegStream {
    const nvjpegHandle *handle;
    bool parsed, hardware;
};

namespace
{

const int NOT_INITIALIZED = 1, INVALID_PARAMETER = 2, ALLOCATOR_FAILURE = 5;
const int SKIPS = 3;

bool set_to(const char *what)
{
    const char *set = getenv("AMPSCALE_FAKE_NVJPEG");
    return set && strcmp(set, what) == 0;
}

struct errors {
    jpeg_error_mgr base;
    jmp_buf escape;
};

void on_error(j_common_ptr c)
{
    longjmp(((errors *)c->err)->escape, 1);
}

void on_message(j_common_ptr c, int level)
{
    c->err->num_warnings += level < 0;
}

/* Reads the header and, if `rgb` is given, the picture up to the first damaged part. Returns false
 * if the header is damaged. */
bool read_jpeg(const unsigned char *bytes, size_t size, bool *hardware, unsigned char *rgb,
               size_t pitch)
{
    jpeg_decompress_struct jpeg = {};
    errors e;
    volatile bool header = false;
    jpeg.err = jpeg_std_error(&e.base);
    e.base.error_exit = on_error;
    e.base.emit_message = on_message;
    if (setjmp(e.escape) == 0) {
        jpeg_create_decompress(&jpeg);
        jpeg_mem_src(&jpeg, (unsigned char *)bytes, size);
        jpeg_read_header(&jpeg, TRUE);
        header = true;
        *hardware = !jpeg.progressive_mode && !jpeg.arith_code && jpeg.num_components != 4;
        jpeg.out_color_space = JCS_RGB;
        jpeg.dct_method = JDCT_ISLOW;
        if (rgb)
            jpeg_start_decompress(&jpeg);
        while (rgb && jpeg.output_scanline < jpeg.output_height && e.base.num_warnings == 0) {
            JSAMPROW row = rgb + jpeg.output_scanline * pitch;
            jpeg_read_scanlines(&jpeg, &row, 1);
        }
    }
    jpeg_destroy_decompress(&jpeg);
    return header;
}

int get_property(int property, int *value)
{
    static const int version[] = {13, 3, 2};
    *value = version[property];
    return NVJPEG_SUCCESS;
}

int create(int backend, void *, void *, unsigned, nvjpegHandle **handle)
{
    if (fake_fails("nvjpegCreateEx"))
        return ALLOCATOR_FAILURE;
    if (backend != NVJPEG_HARDWARE)
        return INVALID_PARAMETER;
    if (set_to("no-engines") || fake_sm(fake_device()) < 80)
        return NVJPEG_ARCH_MISMATCH;
    *handle = new nvjpegHandle{fake_device()};
    return NVJPEG_SUCCESS;
}

template <typename T> int destroy(T *object)
{
    delete object;
    return NVJPEG_SUCCESS;
}

int hardware(nvjpegHandle *, unsigned *engines, unsigned *cores)
{
    *engines = 1;
    *cores = 7;
    return fake_fails("nvjpegGetHardwareDecoderInfo") ? NOT_INITIALIZED : (int)NVJPEG_SUCCESS;
}

int state_create(nvjpegHandle *handle, nvjpegJpegState **state)
{
    if (fake_fails("nvjpegJpegStateCreate"))
        return ALLOCATOR_FAILURE;
    *state = new nvjpegJpegState{handle, 0};
    return NVJPEG_SUCCESS;
}

int parser_create(nvjpegHandle *handle, nvjpegJpegStream **parser)
{
    if (fake_fails("nvjpegJpegStreamCreate"))
        return ALLOCATOR_FAILURE;
    *parser = new nvjpegJpegStream{handle, false, false};
    return NVJPEG_SUCCESS;
}

int parse(nvjpegHandle *handle, const unsigned char *bytes, size_t size, int, int,
          nvjpegJpegStream *parser)
{
    if (fake_fails("nvjpegJpegStreamParse") || parser->handle != handle)
        return INVALID_PARAMETER;
    parser->parsed = read_jpeg(bytes, size, &parser->hardware, NULL, 0);
    return parser->parsed ? (int)NVJPEG_SUCCESS : (int)NVJPEG_BAD_JPEG;
}

int supported(nvjpegHandle *, nvjpegJpegStream *parser, int *unsupported)
{
    if (fake_fails("nvjpegDecodeBatchedSupported") || !parser->parsed)
        return NOT_INITIALIZED;
    *unsupported = !parser->hardware;
    return NVJPEG_SUCCESS;
}

int begin(nvjpegHandle *handle, nvjpegJpegState *state, int n, int cpu_threads, int format)
{
    if (fake_fails("nvjpegDecodeBatchedInitialize") || state->handle != handle || n < 1 ||
        cpu_threads < 1 || format != NVJPEG_RGBI)
        return INVALID_PARAMETER;
    state->batch = n;
    return NVJPEG_SUCCESS;
}

int decode(nvjpegHandle *handle, nvjpegJpegState *state, const unsigned char *const *bytes,
           const size_t *size, nvjpeg_image *picture, CUstream_st *stream)
{
    int n = state->batch;
    state->batch = 0;
    if (n < 1 || state->handle != handle || handle->device != fake_device())
        return NOT_INITIALIZED;
    if (fake_fails("nvjpegDecodeBatched"))
        return NVJPEG_EXECUTION_FAILED;
    fake_hold hold;
    for (int i = 0; i < n; i++) {
        bool fits;
        if (!read_jpeg(bytes[i], size[i], &fits, NULL, 0) || !fits)
            return NVJPEG_NOT_SUPPORTED;
        if (set_to("skips") && i % SKIPS == SKIPS - 1)
            continue;
        fake_with_memory([=] {
            bool unused;
            read_jpeg(bytes[i], size[i], &unused, picture[i].channel[0], picture[i].pitch[0]);
        });
        if (fake_submit(stream, [] {}, fake_takes((double)size[i], 0, RATE_F32)) != cudaSuccess)
            return NVJPEG_EXECUTION_FAILED;
    }
    return NVJPEG_SUCCESS;
}

} // namespace

enum status nvjpeg_library_load(struct nvjpeg_library *lib)
{
    if (set_to("absent"))
        return status_fail(STATUS_UNSUPPORTED, "nvJPEG cannot be loaded (it is not installed)");
    *lib = {get_property, create, destroy, hardware, state_create, destroy, parser_create,
            destroy, parse, supported, begin, decode};
    return STATUS_OK;
}
