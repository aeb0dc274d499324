/* Opens the devices for benchmarks of single operations, and finds the peaks of the measured
 * device. */
#include "bench/micro.h"

#include "bench/peak.h"

enum status micro_open(const char *devices, int threads, struct micro *m)
{
    *m = (struct micro){.dev = NULL};
    TRY(device_open(devices, threads, &m->dev));
    TRY(device_open("ref", 1, &m->ref_dev));
    TRY(m->dev->backend->stream_open(m->dev, &m->stream));
    TRY(m->ref_dev->backend->stream_open(m->ref_dev, &m->ref));
    m->dev->backend->describe(m->dev, m->about, sizeof m->about);
    return STATUS_OK;
}

static void close_stream(struct stream *s)
{
    if (s)
        s->device->backend->stream_close(s);
}

void micro_close(struct micro *m)
{
    close_stream(m->stream);
    close_stream(m->ref);
    device_close(m->dev);
    device_close(m->ref_dev);
    *m = (struct micro){.dev = NULL};
}

enum status micro_peaks(struct micro *m, const char *path, int rounds)
{
    return path ? peaks_read(path, &m->peaks) : peak_measure(m->dev, rounds, 0, NULL, &m->peaks);
}
