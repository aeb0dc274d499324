/* A decoder of JPEG files (input/device_decoder.h) on the hardware engines of a GPU, through
 * nvJPEG.
 *
 * The engines decode whole pictures into device memory. This memory is first filled with
 * CU_UNWRITTEN, because an engine may skip a damaged picture and report success. A kernel resamples
 * the pictures and reports for which of them the last row was written. The outputs are copied to
 * host memory. There a batch may have rows from the GPU and from the CPU, and the rest of the
 * program need not distinguish them. An output of 224 x 224 pixels has 0.15 MB. It is copied to the
 * host and then, with its batch, back to the GPU. */
#include "base/array.h"
#include "config.h"
#include "engine/device_input.h"
#include "engine/nvjpeg/library.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/resample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3, ALIGN = 256 };

struct decoder {
    struct device_decoder base;
    struct device *device;
    struct nvjpeg_library lib;
    struct nvjpegHandle *handle; /* threads may share it */
    char name[160];
};

struct buffer {
    unsigned char *at;
    size_t size;
};

struct device_queue {
    const struct decoder *decoder;
    struct stream *stream;
    struct event *over;
    struct nvjpegJpegState *state;
    struct nvjpegJpegStream *parser;
    struct buffer host;   /* pinned memory: the pictures' descriptions and resampling weights */
    struct buffer copy;   /* copy of `host` in device memory */
    struct buffer pixels; /* decoded pictures */
    struct buffer out;    /* resampled pictures, then one int32_t per picture; 0: not written */
    int32_t written[DEVICE_FILES_MAX];
    /* The pictures of a batch that the device decodes. */
    int n;
    struct device_picture *picture[DEVICE_FILES_MAX];
    const unsigned char *bytes[DEVICE_FILES_MAX];
    size_t size[DEVICE_FILES_MAX];
    struct nvjpeg_image image[DEVICE_FILES_MAX];
};

static const struct decoder *decoder_of(const struct device_decoder *d)
{
    return (const struct decoder *)d;
}

static enum status nvjpeg_fail(int code, const char *call)
{
    static const char *const words[] = {
        [NVJPEG_BAD_JPEG] = "damaged file",
        [NVJPEG_NOT_SUPPORTED] = "unsupported file",
        [NVJPEG_EXECUTION_FAILED] = "execution failed",
        [NVJPEG_ARCH_MISMATCH] = "this GPU lacks the hardware",
    };
    const char *why =
        code > 0 && code < (int)(sizeof words / sizeof *words) && words[code] ? words[code] : "";
    return status_fail(STATUS_LIBRARY, "%s: error %d of nvJPEG%s%s", call, code, *why ? ", " : "",
                       why);
}

#define NVJPEG_TRY(call, name)                                                                     \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != NVJPEG_SUCCESS)                                                               \
            return nvjpeg_fail(code_, name);                                                       \
    } while (0)

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* --- memory --- */

static enum status decoder_alloc(const struct device_decoder *d, size_t bytes, void **mem)
{
    return cuda_alloc_host(decoder_of(d)->device, bytes, mem);
}

static void decoder_free(const struct device_decoder *d, void *mem)
{
    cuda_free_host(decoder_of(d)->device, mem);
}

/* Enlarges a buffer of the device or of the host to at least `size` bytes; its contents are lost.
 * A buffer grows by at least half of its size, because allocating device memory makes the GPU wait.
 */
static enum status reserve(struct device_queue *q, struct buffer *b, size_t size, bool host)
{
    struct device *dev = q->decoder->device;
    if (size <= b->size)
        return STATUS_OK;
    size = size < b->size + b->size / 2 ? b->size + b->size / 2 : size;
    (host ? cuda_free_host : cuda_free)(dev, b->at);
    *b = (struct buffer){0};
    void *mem;
    TRY((host ? cuda_alloc_host : cuda_alloc)(dev, size, &mem));
    *b = (struct buffer){mem, size};
    return STATUS_OK;
}

/* --- a batch --- */

/* Chooses the pictures that the kernel can resample. */
static void choose_pictures(struct device_queue *q, struct device_picture *p, int n)
{
    q->n = 0;
    for (int i = 0; i < n; i++) {
        p[i].done = false;
        if (p[i].x->taps >= CU_RESAMPLE_SPAN)
            continue;
        q->picture[q->n] = &p[i];
        q->bytes[q->n] = p[i].bytes;
        q->size[q->n++] = p[i].size;
    }
}

static size_t weights_size(const struct resize_table *t, int side)
{
    return round_up((size_t)side * (2 * sizeof(int32_t) + (size_t)t->taps * sizeof(int16_t)));
}

/* Copies a table to q->host at `offset`, and returns its future addresses in device memory. */
static struct cu_weights put_weights(const struct device_queue *q, size_t offset,
                                     const struct resize_table *t, int side)
{
    size_t part = (size_t)side * sizeof(int32_t);
    unsigned char *to = q->host.at + offset, *at = q->copy.at + offset;
    memcpy(to, t->begin, part);
    memcpy(to + part, t->count, part);
    memcpy(to + 2 * part, t->weight, (size_t)side * (size_t)t->taps * sizeof *t->weight);
    return (struct cu_weights){t->taps, (int32_t *)at, (int32_t *)(at + part),
                               (int16_t *)(at + 2 * part)};
}

static size_t out_size(int side)
{
    return (size_t)side * (size_t)side * COLOURS;
}

static size_t pitch_of(const struct device_picture *p)
{
    return round_up((size_t)p->width * COLOURS);
}

static enum status reserve_all(struct device_queue *q, int side, size_t *described)
{
    size_t pixels = 0;
    *described = round_up((size_t)q->n * sizeof(struct cu_picture));
    for (int i = 0; i < q->n; i++) {
        const struct device_picture *p = q->picture[i];
        *described += weights_size(p->x, side) + weights_size(p->y, side);
        pixels += pitch_of(p) * (size_t)p->height;
    }
    TRY(reserve(q, &q->host, *described, true));
    TRY(reserve(q, &q->copy, *described, false));
    TRY(reserve(q, &q->pixels, pixels, false));
    return reserve(q, &q->out,
                   round_up((size_t)q->n * out_size(side)) + DEVICE_FILES_MAX * sizeof(int32_t),
                   false);
}

/* Describes the pictures to nvJPEG and to the kernel. */
static void describe_all(struct device_queue *q, int side)
{
    struct cu_picture *described = (struct cu_picture *)q->host.at;
    size_t offset = round_up((size_t)q->n * sizeof *described), pixels = 0;
    int32_t *written = (int32_t *)(q->out.at + round_up((size_t)q->n * out_size(side)));
    for (int i = 0; i < q->n; i++) {
        const struct device_picture *p = q->picture[i];
        size_t pitch = pitch_of(p);
        described[i] = (struct cu_picture){.rgb = q->pixels.at + pixels,
                                           .pitch = (int64_t)pitch,
                                           .width = p->width,
                                           .height = p->height,
                                           .out = q->out.at + (size_t)i * out_size(side),
                                           .written = written + i};
        q->image[i] = (struct nvjpeg_image){.channel = {q->pixels.at + pixels}, .pitch = {pitch}};
        pixels += pitch * (size_t)p->height;
        described[i].x = put_weights(q, offset, p->x, side);
        offset += weights_size(p->x, side);
        described[i].y = put_weights(q, offset, p->y, side);
        offset += weights_size(p->y, side);
    }
}

/* Waits for the queue's stream. The thread sleeps, because it may share its core with other
 * workers. Does not call the backend's wait functions: they also report invalid labels, and only
 * the thread that runs the loss may receive such a report. */
static enum status wait_for(struct device_queue *q)
{
    TRY(cuda_event_record(q->over, q->stream));
    return cuda_check(cudaEventSynchronize(q->over->raw), "decode pictures");
}

/* Executes the work of a batch, but does not wait for the end of it. On an H100 the engines write
 * the pictures when nvjpegDecodeBatched is called, and not in the order of the stream: they would
 * overtake the fill, which would then erase the pictures. An event that the stream waits for does
 * not stop them either, so the host waits for the fill before it calls the function. */
static enum status enqueue(struct device_queue *q, int side, size_t described)
{
    const struct decoder *d = q->decoder;
    const struct cu_picture *last = (struct cu_picture *)q->host.at + q->n - 1;
    struct cu_queue queue;
    TRY(cuda_queue(q->stream, &queue));
    TRY(cuda_upload(q->stream, q->copy.at, q->host.at, described));
    size_t used = (size_t)(last->rgb - q->pixels.at) + (size_t)last->pitch * (size_t)last->height;
    TRY(cuda_check(cudaMemsetAsync(q->pixels.at, CU_UNWRITTEN, used, queue.stream),
                   "fill %zu bytes", used));
    NVJPEG_TRY(d->lib.begin(d->handle, q->state, q->n, 1, NVJPEG_RGBI),
               "nvjpegDecodeBatchedInitialize");
    TRY(wait_for(q));
    NVJPEG_TRY(d->lib.decode(d->handle, q->state, q->bytes, q->size, q->image, queue.stream),
               "nvjpegDecodeBatched");
    TRY(cu_resample(&queue, side, q->n, (struct cu_picture *)q->copy.at));
    for (int i = 0; i < q->n; i++)
        TRY(cuda_download(q->stream, q->picture[i]->out, q->out.at + (size_t)i * out_size(side),
                          out_size(side)));
    return cuda_download(q->stream, q->written, q->out.at + round_up((size_t)q->n * out_size(side)),
                         (size_t)q->n * sizeof *q->written);
}

static enum status queue_decode(struct device_queue *q, struct device_picture *p, int n)
{
    size_t described;
    int side = p->side;
    choose_pictures(q, p, n);
    if (q->n == 0)
        return STATUS_OK;
    TRY(reserve_all(q, side, &described));
    describe_all(q, side);
    struct first_failure failure = {0};
    first_failure_keep(&failure, enqueue(q, side, described));
    /* Waits also after a failure, because the GPU may still read the files. */
    first_failure_keep(&failure, wait_for(q));
    TRY(first_failure_return(&failure));
    for (int i = 0; i < q->n; i++)
        q->picture[i]->done = q->written[i] != 0;
    return STATUS_OK;
}

/* --- queues --- */

static bool queue_takes(struct device_queue *q, const uint8_t *bytes, size_t size)
{
    const struct decoder *d = q->decoder;
    int unsupported = 1;
    return cuda_enter(cuda_device_of(d->device)) == STATUS_OK &&
           d->lib.parse(d->handle, bytes, size, 0, 0, q->parser) == NVJPEG_SUCCESS &&
           d->lib.supported(d->handle, q->parser, &unsupported) == NVJPEG_SUCCESS &&
           unsupported == 0;
}

static void queue_close(struct device_queue *q)
{
    if (!q)
        return;
    const struct decoder *d = q->decoder;
    if (cudaSetDevice(d->device->index) == cudaSuccess) {
        if (q->parser)
            d->lib.parser_destroy(q->parser);
        if (q->state)
            d->lib.state_destroy(q->state);
    }
    cuda_event_close(q->over);
    cuda_stream_close(q->stream);
    cuda_free_host(d->device, q->host.at);
    cuda_free(d->device, q->copy.at);
    cuda_free(d->device, q->pixels.at);
    cuda_free(d->device, q->out.at);
    free(q);
}

static enum status open_parts(struct device_queue *q)
{
    const struct decoder *d = q->decoder;
    TRY(cuda_stream_open(d->device, &q->stream));
    TRY(cuda_event_open(d->device, &q->over));
    NVJPEG_TRY(d->lib.state_create(d->handle, &q->state), "nvjpegJpegStateCreate");
    NVJPEG_TRY(d->lib.parser_create(d->handle, &q->parser), "nvjpegJpegStreamCreate");
    return STATUS_OK;
}

static enum status queue_open(const struct device_decoder *decoder, struct device_queue **out)
{
    struct device_queue *q;
    *out = NULL;
    TRY(array_new(&q, 1));
    q->decoder = decoder_of(decoder);
    enum status st = open_parts(q);
    if (st != STATUS_OK) {
        queue_close(q);
        return st;
    }
    *out = q;
    return STATUS_OK;
}

/* --- the decoder --- */

static void decoder_drop(struct device_decoder *decoder)
{
    struct decoder *d = (struct decoder *)decoder;
    if (d->handle && cudaSetDevice(d->device->index) == cudaSuccess)
        d->lib.destroy(d->handle);
    free(d);
}

/* Opens the library for the GPU's JPEG engines. If the GPU has no such engines, the library returns
 * an error, or reports that there are 0 engines. */
static enum status open_engines(struct decoder *d)
{
    unsigned engines = 0, cores = 0;
    int version[3] = {0};
    int gpu = d->device->index;
    TRY(nvjpeg_library_load(&d->lib));
    TRY(cuda_enter(cuda_device_of(d->device)));
    for (int i = 0; i < 3; i++)
        NVJPEG_TRY(d->lib.get_property(i, &version[i]), "nvjpegGetProperty");
    int code = d->lib.create(NVJPEG_HARDWARE, NULL, NULL, 0, &d->handle);
    if (code == NVJPEG_SUCCESS && d->lib.hardware)
        code = d->lib.hardware(d->handle, &engines, &cores);
    if (code != NVJPEG_SUCCESS || (d->lib.hardware && engines == 0))
        return status_fail(STATUS_UNSUPPORTED,
                           "GPU %d, '%s', has no engines that decode JPEG, or its driver does not "
                           "offer them (error %d of nvJPEG %d.%d.%d)",
                           gpu, cuda_device_of(d->device)->name, code, version[0], version[1],
                           version[2]);
    int n = snprintf(d->name, sizeof d->name, "nvJPEG %d.%d.%d on GPU %d", version[0], version[1],
                     version[2], gpu);
    if (engines > 0)
        snprintf(d->name + n, sizeof d->name - (size_t)n, ", JPEG engines: %u x %u", engines,
                 cores);
    return STATUS_OK;
}

nvjpeg_module_entry ampscale_cuda_nvjpeg;

enum status ampscale_cuda_nvjpeg(unsigned abi, struct device *dev, struct device_decoder **out)
{
    static const struct device_decoder calls = {.alloc = decoder_alloc,
                                                .free = decoder_free,
                                                .open = queue_open,
                                                .close = queue_close,
                                                .takes = queue_takes,
                                                .decode = queue_decode,
                                                .drop = decoder_drop};
    struct decoder *d;
    *out = NULL;
    if (abi != AMPSCALE_MODULE_ABI)
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module was built for another version of this program");
    TRY(array_new(&d, 1));
    d->base = calls;
    d->base.name = d->name;
    d->device = dev;
    enum status st = open_engines(d);
    if (st != STATUS_OK) {
        decoder_drop(&d->base);
        return st;
    }
    *out = &d->base;
    return STATUS_OK;
}
