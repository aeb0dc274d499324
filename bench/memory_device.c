/* Measures copies to, from and within a device, and between two devices. */
#include "bench/memory.h"

#include <string.h>

enum { UP, DOWN, ACROSS, COPIES };

/* The copy path between two devices, or within one device (from == to). */
struct path {
    struct device *from, *to;
    size_t bytes;
    struct stream *stream, *far; /* stream of `from`; stream of `to` */
    struct event *begin, *end;   /* events of `from` */
    void *source, *target;       /* memory of `from`; memory of `to` */
    void *sent, *got;            /* pinned host memory */
    int copy;                    /* the measured copy: UP, DOWN or ACROSS */
};

static enum status path_open(struct path *m, struct device *from, struct device *to, size_t bytes)
{
    const struct backend *b = from->backend;
    *m = (struct path){.from = from, .to = to, .bytes = bytes};
    TRY(b->stream_open(from, &m->stream));
    TRY(b->stream_open(to, &m->far));
    TRY(b->event_open(from, &m->begin));
    TRY(b->event_open(from, &m->end));
    TRY(b->alloc(from, bytes, &m->source));
    TRY(b->alloc(to, bytes, &m->target));
    TRY(b->alloc_host(from, bytes, &m->sent));
    return b->alloc_host(to, bytes, &m->got);
}

static void path_close(struct path *m)
{
    const struct backend *b = m->from->backend;
    b->free_host(m->to, m->got);
    b->free_host(m->from, m->sent);
    b->free(m->to, m->target);
    b->free(m->from, m->source);
    b->event_close(m->end);
    b->event_close(m->begin);
    b->stream_close(m->far);
    b->stream_close(m->stream);
}

static enum status copy_once(const struct path *m, int copy)
{
    const struct backend *b = m->from->backend;
    if (copy == UP)
        return b->upload(m->stream, m->source, m->sent, m->bytes);
    if (copy == DOWN)
        return b->download(m->stream, m->got, m->source, m->bytes);
    return b->copy(m->stream, m->target, m->source, m->bytes);
}

static enum status copy_sample(void *context, double *seconds)
{
    const struct path *m = context;
    const struct backend *b = m->from->backend;
    TRY(b->event_record(m->begin, m->stream));
    TRY(copy_once(m, m->copy));
    TRY(b->event_record(m->end, m->stream));
    TRY(b->stream_sync(m->stream));
    *seconds = b->event_seconds(m->begin, m->end);
    return STATUS_OK;
}

/* Copies test data and compares the result on the host. The test data contains no zero byte, and
 * depends on the two devices and the kind of copy. */
static enum status copy_check(struct path *m, int64_t *wrong)
{
    const struct backend *b = m->from->backend;
    unsigned char *sent = m->sent;
    const unsigned char *got = m->got;
    unsigned which =
        7u * (unsigned)m->from->index + 29u * (unsigned)m->to->index + 53u * (unsigned)m->copy;
    for (size_t i = 0; i < m->bytes; i++)
        sent[i] = (unsigned char)(1 + ((i * 2654435761u >> 16) + which) % 255);
    memset(m->got, 0, m->bytes);
    TRY(b->zero(m->far, m->target, m->bytes));
    TRY(b->stream_sync(m->far));
    TRY(copy_once(m, UP));
    TRY(copy_once(m, m->copy == ACROSS ? ACROSS : DOWN));
    TRY(b->stream_sync(m->stream));
    if (m->copy == ACROSS)
        TRY(b->download(m->far, m->got, m->target, m->bytes));
    TRY(b->stream_sync(m->far));
    *wrong = 0;
    for (size_t i = 0; i < m->bytes; i++)
        *wrong += got[i] != sent[i];
    return STATUS_OK;
}

enum status memory_measure_device(const struct harness_config *timing, struct device *dev,
                                  size_t array_bytes, struct memory_result *r)
{
    static const char *const names[COPIES] = {"h2d", "d2h", "d2d"};
    struct path m;
    enum status st;
    CHECK(path_open(&m, dev, dev, array_bytes));
    r->array_bytes = array_bytes;
    bar_begin(timing->bar, COPIES);
    for (m.copy = 0; m.copy < COPIES; m.copy++) {
        struct memory_row *row = &r->row[m.copy];
        *row = (struct memory_row){.name = names[m.copy],
                                   .bytes = (double)array_bytes * (m.copy == ACROSS ? 2 : 1)};
        CHECK(harness_run(timing, copy_sample, &m, &row->time));
        CHECK(copy_check(&m, &row->wrong));
        r->n = m.copy + 1;
    }
done:
    path_close(&m);
    return st;
}

static enum status measure_pair(const struct harness_config *timing, struct device *from,
                                struct device *to, size_t bytes, struct memory_pair *pair)
{
    struct path m;
    enum status st;
    *pair = (struct memory_pair){.measured = false};
    if (from->backend->peer_open)
        TRY(from->backend->peer_open(from, to, &pair->direct));
    CHECK(path_open(&m, from, to, bytes));
    m.copy = ACROSS;
    CHECK(harness_run(timing, copy_sample, &m, &pair->time));
    CHECK(copy_check(&m, &pair->wrong));
    pair->measured = true;
done:
    path_close(&m);
    return st;
}

enum status memory_measure_peers(const struct harness_config *timing, struct device *const *dev,
                                 struct memory_peers *p)
{
    bar_begin(timing->bar, (int64_t)p->n * (p->n - 1));
    p->wrong = 0;
    for (int from = 0; from < p->n; from++) {
        p->index[from] = dev[from]->index;
        for (int to = 0; to < p->n; to++) {
            if (from != to)
                TRY(measure_pair(timing, dev[from], dev[to], p->bytes, &p->pair[from][to]));
            p->wrong += p->pair[from][to].wrong;
        }
    }
    return STATUS_OK;
}
