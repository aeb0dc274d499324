/* How batches reach a device.
 *
 * Where streams are the calling thread, a batch is copied in place. On an asynchronous device it
 * goes on a stream of its own into memory kept for that while the step before computes, and from
 * there, within the device, into place: two buffers, and the operations know of one. */
#include "model/program.h"

static enum status alloc(struct network *net, size_t bytes, char **out)
{
    void *mem;
    TRY(net->dev->backend->alloc(net->dev, bytes, &mem));
    *out = mem;
    return STATUS_OK;
}

enum status input_staging_open(struct network *net, size_t image_bytes, size_t label_bytes)
{
    const struct backend *b = net->dev->backend;
    struct input_staging *f = &net->input_staging;
    if (!b->asynchronous)
        return STATUS_OK;
    TRY(alloc(net, image_bytes, &f->images));
    TRY(alloc(net, label_bytes, &f->labels));
    TRY(b->stream_open(net->dev, &f->stream));
    TRY(b->event_open(net->dev, &f->arrived));
    TRY(b->event_open(net->dev, &f->taken));
    return b->event_record(f->taken, net->stream);
}

void input_staging_close(struct network *net)
{
    const struct backend *b = net->dev->backend;
    struct input_staging *f = &net->input_staging;
    if (f->stream)
        b->stream_close(f->stream);
    if (f->arrived)
        b->event_close(f->arrived);
    if (f->taken)
        b->event_close(f->taken);
    if (f->images)
        b->free(net->dev, f->images);
    if (f->labels)
        b->free(net->dev, f->labels);
    *f = (struct input_staging){0};
}

struct stream *network_input_stream(struct network *net)
{
    return net->input_staging.stream ? net->input_staging.stream : net->stream;
}

enum status program_input(struct program *p, const void *images, const int32_t *label)
{
    struct network *net = p->net;
    const struct backend *b = net->dev->backend;
    struct input_staging *f = &net->input_staging;
    size_t label_bytes = (size_t)p->config.batch * sizeof *label;
    if (!f->stream) {
        TRY(b->upload(net->stream, net->images, images, p->image_bytes));
        return b->upload(net->stream, net->labels, label, label_bytes);
    }
    TRY(b->stream_wait(f->stream, f->taken));
    TRY(b->upload(f->stream, f->images, images, p->image_bytes));
    TRY(b->upload(f->stream, f->labels, label, label_bytes));
    TRY(b->event_record(f->arrived, f->stream));
    TRY(b->stream_wait(net->stream, f->arrived));
    TRY(b->copy(net->stream, net->images, f->images, p->image_bytes));
    TRY(b->copy(net->stream, net->labels, f->labels, label_bytes));
    return b->event_record(f->taken, net->stream);
}
