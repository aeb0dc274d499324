/* Copies batches to a device.
 *
 * On a synchronous device, the calling thread copies a batch directly to the network's input
 * buffer. On an asynchronous device, a separate stream copies the batch to staging memory while the
 * previous step computes, and the network's stream then copies it to the input buffer. Operations
 * always read the input buffer. */
#include "model/program.h"

enum status input_staging_open(struct network *net, size_t image_bytes, size_t label_bytes)
{
    const struct backend *b = net->dev->backend;
    struct input_staging *f = &net->input_staging;
    if (!b->asynchronous)
        return STATUS_OK;
    TRY(network_alloc(net, image_bytes, &f->images));
    TRY(network_alloc(net, label_bytes, &f->labels));
    TRY(b->stream_open(net->dev, &f->stream));
    TRY(b->event_open(net->dev, &f->arrived));
    TRY(b->event_open(net->dev, &f->taken));
    return b->event_record(f->taken, net->stream);
}

void input_staging_close(struct network *net)
{
    const struct backend *b = net->dev->backend;
    struct input_staging *f = &net->input_staging;
    b->stream_close(f->stream);
    b->event_close(f->arrived);
    b->event_close(f->taken);
    b->free(net->dev, f->images);
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
