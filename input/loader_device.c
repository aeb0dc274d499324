/* The files that a worker of the loader keeps for a device, because a device decodes several files
 * at a time. */
#include "base/array.h"
#include "base/clock.h"
#include "input/loader_ring.h"

#include <stdio.h>
#include <stdlib.h>

/* Number of consecutive failures of the device after which a worker no longer uses it. */
enum { FAILURES_MAX = 8 };

struct kept_file {
    struct ticket ticket;
    struct io_stats stats;
    struct sample_reader *reader; /* has the file's bytes, and the weights by which the
                                   * crop is resampled */
};

struct worker_files {
    struct loader *loader;
    struct device_queue *queue; /* NULL: the device has failed too often */
    int failures;               /* since the last success */
    int limit, kept;
    struct kept_file file[DEVICE_FILES_MAX];
    struct device_picture picture[DEVICE_FILES_MAX];
};

/* Returns the maximum number of files that a worker keeps: its share of the prefetched images. A
 * larger number could leave other workers without files, and make a batch wait for one worker. */
static int limit_of(const struct loader_config *c)
{
    int64_t share = (int64_t)c->batch * c->prefetch / c->workers;
    return share < 1 ? 1 : share > DEVICE_FILES_MAX ? (int)DEVICE_FILES_MAX : (int)share;
}

enum status worker_files_open(struct loader *l, struct worker_files **out)
{
    struct worker_files *f;
    const struct device_decoder *d = l->config.decoder;
    *out = NULL;
    TRY(array_new(&f, 1));
    f->loader = l;
    f->limit = limit_of(&l->config);
    enum status st;
    CHECK(d->open(d, &f->queue));
    for (int i = 0; i < f->limit; i++)
        CHECK(sample_reader_open_for(d, &f->file[i].reader));
    *out = f;
    return STATUS_OK;
done:
    worker_files_close(f);
    return st;
}

void worker_files_close(struct worker_files *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->limit; i++)
        sample_reader_close(f->file[i].reader);
    f->loader->config.decoder->close(f->queue);
    free(f);
}

struct sample_reader *worker_files_reader(const struct worker_files *f)
{
    return f->file[f->kept].reader;
}

/* Does not report a damaged file: the CPU then decodes the file and reports the damage. */
bool worker_files_keep(struct worker_files *f, const struct ticket *t, const struct io_stats *stats)
{
    struct loader *l = f->loader;
    struct device_picture *p = &f->picture[f->kept];
    struct kept_file *file = &f->file[f->kept];
    struct rng rng = loader_rng(l, t);
    if (!f->queue || sample_describe(file->reader, &l->sample, &rng, p) != STATUS_OK ||
        !l->config.decoder->takes(f->queue, p->bytes, p->size))
        return false;
    p->out = loader_row(l, t);
    file->ticket = *t;
    file->stats = *stats;
    f->kept++;
    return true;
}

int worker_files_kept(const struct worker_files *f)
{
    return f->kept;
}

bool worker_files_full(const struct worker_files *f)
{
    return f->kept == f->limit;
}

/* Prints a warning, once for all workers, and closes this worker's queue after FAILURES_MAX
 * consecutive failures. */
static void note_failure(struct worker_files *f)
{
    struct loader *l = f->loader;
    const struct device_decoder *d = l->config.decoder;
    if (!atomic_exchange(&l->device_failed, true))
        fprintf(stderr,
                "ampscale: warning: %s cannot decode some images, and the CPU decodes them: %s\n",
                d->name, status_message());
    if (++f->failures < FAILURES_MAX)
        return;
    d->close(f->queue);
    f->queue = NULL;
}

void worker_files_decode(struct worker_files *f)
{
    struct loader *l = f->loader;
    uint64_t start = clock_ns();
    if (l->config.decoder->decode(f->queue, f->picture, f->kept) != STATUS_OK)
        note_failure(f);
    else
        f->failures = 0;
    int64_t each_ns = (int64_t)(clock_ns() - start) / f->kept;
    for (int i = 0; i < f->kept; i++) {
        struct kept_file *file = &f->file[i];
        enum status st = STATUS_OK;
        file->stats.decode_ns += each_ns;
        file->stats.on_device += f->picture[i].done;
        if (!f->picture[i].done)
            st = loader_decode(l, file->reader, &file->ticket, &file->stats);
        pthread_mutex_lock(&l->lock);
        loader_finish(l, &file->ticket, st, &file->stats);
        pthread_mutex_unlock(&l->lock);
    }
    f->kept = 0;
}
