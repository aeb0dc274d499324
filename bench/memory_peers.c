/* Copies from the memory of each device to that of each other. */
#include "bench/memory.h"

#include "results/environment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A pair under way. */
struct path {
    struct device *from, *to;
    size_t bytes;
    struct stream *stream, *far; /* of either */
    struct event *begin, *end;   /* of the first */
    void *source, *target;
    void *sent, *got; /* the host's, pinned */
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
    if (m->got)
        b->free_host(m->to, m->got);
    if (m->sent)
        b->free_host(m->from, m->sent);
    if (m->target)
        b->free(m->to, m->target);
    if (m->source)
        b->free(m->from, m->source);
    if (m->end)
        b->event_close(m->end);
    if (m->begin)
        b->event_close(m->begin);
    if (m->far)
        b->stream_close(m->far);
    if (m->stream)
        b->stream_close(m->stream);
}

static enum status sample(void *context, double *seconds)
{
    const struct path *m = context;
    const struct backend *b = m->from->backend;
    TRY(b->event_record(m->begin, m->stream));
    TRY(b->copy(m->stream, m->target, m->source, m->bytes));
    TRY(b->event_record(m->end, m->stream));
    TRY(b->stream_sync(m->stream));
    *seconds = b->event_seconds(m->begin, m->end);
    return STATUS_OK;
}

/* Once more, of values that this pair alone has. */
static enum status check(struct path *m, int64_t *wrong)
{
    const struct backend *b = m->from->backend;
    unsigned char *sent = m->sent;
    const unsigned char *got = m->got;
    double ignored;
    for (size_t i = 0; i < m->bytes; i++)
        sent[i] = (unsigned char)((i * 2654435761u >> 16) + 7u * (unsigned)m->from->index +
                                  29u * (unsigned)m->to->index + 1);
    TRY(b->zero(m->far, m->target, m->bytes));
    TRY(b->stream_sync(m->far));
    TRY(b->upload(m->stream, m->source, sent, m->bytes));
    TRY(sample(m, &ignored));
    TRY(b->download(m->far, m->got, m->target, m->bytes));
    TRY(b->stream_sync(m->far));
    *wrong = 0;
    for (size_t i = 0; i < m->bytes; i++)
        *wrong += got[i] != sent[i];
    return STATUS_OK;
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
    CHECK(harness_run(timing, sample, &m, &pair->time));
    CHECK(check(&m, &pair->wrong));
    pair->measured = true;
done:
    path_close(&m);
    return st;
}

enum status memory_measure_peers(const struct harness_config *timing, struct device *const *dev,
                                 struct memory_peers *p)
{
    for (int from = 0; from < p->n; from++) {
        p->index[from] = dev[from]->index;
        for (int to = 0; to < p->n; to++)
            if (from != to)
                TRY(measure_pair(timing, dev[from], dev[to], p->bytes, &p->pair[from][to]));
    }
    return STATUS_OK;
}

double memory_pair_rate(const struct memory_peers *p, int from, int to)
{
    const struct memory_pair *w = &p->pair[from][to];
    return w->measured && w->time.median > 0 ? (double)p->bytes * 1e-9 / w->time.median : 0;
}

/* --- what is printed --- */

static void print_table(const struct memory_peers *p, FILE *out)
{
    int64_t wrong = 0;
    bool staged = false;
    fprintf(out,
            "%s ... (%d devices)\ncopies of %zu MiB from the device of a row to that of a column, "
            "median GB/s\n\n%8s",
            p->device, p->n, p->bytes >> 20, "");
    for (int to = 0; to < p->n; to++)
        fprintf(out, " %9d ", p->index[to]);
    for (int from = 0; from < p->n; from++) {
        fprintf(out, "\n%8d", p->index[from]);
        for (int to = 0; to < p->n; to++) {
            const struct memory_pair *w = &p->pair[from][to];
            if (w->measured)
                fprintf(out, " %9.2f%c", memory_pair_rate(p, from, to), w->direct ? ' ' : '*');
            else
                fprintf(out, " %9s ", "n/a");
            staged = staged || (w->measured && !w->direct);
            wrong += w->wrong;
        }
    }
    fprintf(out, "\n\n%s#wrong bytes: %" PRId64 "\n",
            staged ? "* by way of the host: the first does not reach the other's memory\n" : "",
            wrong);
}

static void print_csv(const struct memory_peers *p, FILE *out)
{
    fputs("from,to,bytes,direct,n,median_s,p5_s,p95_s,median_gb_per_s,wrong\n", out);
    for (int from = 0; from < p->n; from++)
        for (int to = 0; to < p->n; to++) {
            const struct memory_pair *w = &p->pair[from][to];
            if (w->measured)
                fprintf(out, "%d,%d,%zu,%d,%" PRId64 ",%.9g,%.9g,%.9g,%.9g,%" PRId64 "\n",
                        p->index[from], p->index[to], p->bytes, w->direct, w->time.n,
                        w->time.median, w->time.p5, w->time.p95, memory_pair_rate(p, from, to),
                        w->wrong);
        }
}

static json_t *pairs_json(const struct memory_peers *p)
{
    json_t *pairs = json_array();
    for (int from = 0; from < p->n; from++)
        for (int to = 0; to < p->n; to++) {
            const struct memory_pair *w = &p->pair[from][to];
            if (w->measured)
                json_array_append_new(
                    pairs, json_pack("{s:i, s:i, s:b, s:o, s:f, s:I}", "from", p->index[from], "to",
                                     p->index[to], "direct", w->direct, "seconds",
                                     harness_json(&w->time), "median_gb_per_s",
                                     memory_pair_rate(p, from, to), "wrong", (json_int_t)w->wrong));
        }
    return pairs;
}

static enum status print_json(const struct memory_peers *p, FILE *out)
{
    char now[ENVIRONMENT_TIME_MAX];
    json_t *host;
    environment_time(now);
    TRY(environment_describe(&host));
    json_t *record =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:i, s:I, s:o}", "schema", MEMORY_PEERS_SCHEMA,
                  "bench", "memory_peers", "measured", now, "device", p->device, "host", host,
                  "devices", p->n, "bytes", (json_int_t)p->bytes, "pairs", pairs_json(p));
    if (!record || !environment_program(record)) {
        json_decref(record);
        return status_fail(STATUS_OOM, "no memory for the record");
    }
    json_dumpf(record, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(record);
    return STATUS_OK;
}

enum status memory_print_peers(const struct memory_config *c, const struct memory_peers *p)
{
    if (c->json)
        return print_json(p, c->out);
    if (c->csv)
        print_csv(p, c->out);
    else
        print_table(p, c->out);
    return STATUS_OK;
}

/* --- all of it --- */

static enum status measure(const struct memory_config *c, const struct device_list *list,
                           struct memory_peers *p)
{
    struct device *dev[DEVICES_MAX] = {NULL};
    enum status st = STATUS_OK;
    for (int i = 0; i < list->n; i++)
        CHECK(list->backend->open(list->backend, list->index[i], 1, &dev[i]));
    list->backend->describe(dev[0], p->device, sizeof p->device);
    CHECK(memory_measure_peers(&c->timing, dev, p));
done:
    for (int i = 0; i < list->n; i++)
        device_close(dev[i]);
    return st;
}

static enum status judge(const struct memory_peers *p)
{
    int64_t wrong = 0;
    for (int from = 0; from < p->n; from++)
        for (int to = 0; to < p->n; to++)
            wrong += p->pair[from][to].wrong;
    if (wrong > 0)
        return status_fail(STATUS_MISMATCH, "%" PRId64 " bytes came to another device wrong",
                           wrong);
    return STATUS_OK;
}

enum status bench_memory_peers(const struct memory_config *c)
{
    struct device_list list;
    enum status st;
    TRY(device_list_parse(c->devices, &list));
    struct memory_peers *p = calloc(1, sizeof *p);
    if (!p)
        return status_fail(STATUS_OOM, "no memory for %d devices", list.n);
    p->n = list.n;
    p->bytes = (size_t)(c->max_mib ? c->max_mib : MEMORY_MIB_DEVICE) << 20;
    CHECK(measure(c, &list, p));
    CHECK(memory_print_peers(c, p));
    CHECK(judge(p));
done:
    free(p);
    return st;
}
