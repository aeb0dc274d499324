/* The rows of bench overhead: the sum between ranks, all of them together, and what is printed. */
#include "bench/overhead.h"

#include "base/stop.h"
#include "base/thread_pool.h"
#include "runners/world.h"

#include <inttypes.h>

/* --- allreduce --- */

enum { THREADS = 2, BYTES = 4 };

struct sums {
    struct collective_config config;
    struct comm *const *comm;
    struct collective_buffers buffers[THREADS];
    struct collective_row row; /* the first member's */
};

static enum status sum_member(void *context, int member)
{
    struct sums *s = context;
    struct collective_row other;
    struct comm *comm = s->comm[member];
    enum status st;
    CHECK(collective_buffers_open(comm, comm, BYTES, &s->buffers[member]));
    CHECK(collective_measure(&s->config, comm, &s->buffers[member], BYTES,
                             member == 0 ? &s->row : &other));
done:
    if (st != STATUS_OK)
        comm_fail(comm, st, status_message());
    return st;
}

static enum status sum_all(const struct harness_config *timing, int members,
                           struct comm *const *comm, struct overhead_row *row)
{
    struct sums s = {.config = collective_config_default(), .comm = comm};
    struct thread_pool *pool = NULL;
    enum status st;
    s.config.timing = *timing;
    CHECK(thread_pool_open(members, &pool));
    CHECK(thread_pool_run(pool, sum_member, &s));
    const struct collective_time *t = &s.row.place[COLLECTIVE_IN];
    row->time = t->time;
    row->done = timing->warmup + t->time.n;
    row->valid = t->wrong == 0;
done:
    thread_pool_close(pool);
    for (int i = 0; i < members; i++)
        collective_buffers_close(&s.buffers[i]);
    return st;
}

enum status overhead_allreduce(const struct harness_config *timing, struct world *w,
                               struct overhead_row *row)
{
    struct comm *comm[THREADS];
    *row = (struct overhead_row){.name = "allreduce"};
    if (w->size > 1)
        return sum_all(timing, 1, &w->comm, row);
    TRY(comm_open_local(THREADS, 0, comm));
    enum status st = sum_all(timing, THREADS, comm, row);
    for (int i = 0; i < THREADS; i++)
        comm_close(comm[i]);
    return st;
}

/* --- what is printed --- */

static void print_rows(const struct overhead_config *c, const struct micro *m,
                       const struct overhead_row *row)
{
    bool csv = c->format == BENCH_CSV;
    if (csv)
        fprintf(c->out, "what,n,median_s,p5_s,p95_s,done,valid\n");
    else
        fprintf(c->out, "%s\n%-10s %10s %10s %10s %6s %8s  %s\n", m->about, "what", "us", "p5",
                "p95", "n", "done", "valid");
    for (int i = 0; i < OVERHEAD_ROWS; i++) {
        const struct harness_result *t = &row[i].time;
        if (csv)
            fprintf(c->out, "%s,%" PRId64 ",%.9g,%.9g,%.9g,%" PRId64 ",%d\n", row[i].name, t->n,
                    t->median, t->p5, t->p95, row[i].done, row[i].valid);
        else
            fprintf(c->out, "%-10s %10.3f %10.3f %10.3f %6" PRId64 " %8" PRId64 "  %s\n",
                    row[i].name, t->median * 1e6, t->p5 * 1e6, t->p95 * 1e6, t->n, row[i].done,
                    row[i].valid ? "yes" : "NO");
    }
}

static enum status print_json(const struct overhead_config *c, const struct micro *m,
                              const struct world *w, const struct overhead_row *row)
{
    json_t *record;
    TRY(micro_record(m, "overhead", OVERHEAD_SCHEMA, &record));
    json_t *rows = json_array();
    for (int i = 0; i < OVERHEAD_ROWS; i++)
        json_array_append_new(rows, json_pack("{s:s, s:o, s:I, s:b}", "what", row[i].name,
                                              "seconds", harness_json(&row[i].time), "done",
                                              (json_int_t)row[i].done, "valid", row[i].valid));
    json_object_set_new(record, "ranks", json_integer(w->size > 1 ? w->size : THREADS));
    json_object_set_new(record, "network",
                        json_string(w->size > 1 ? world_network(w) : "threads of one process"));
    json_object_set_new(record, "rows", rows);
    micro_print(record, c->out);
    return STATUS_OK;
}

static enum status report(const struct overhead_config *c, const struct micro *m,
                          const struct world *w, const struct overhead_row *row)
{
    int bad = 0;
    if (w->rank == 0 && c->format == BENCH_JSON)
        TRY(print_json(c, m, w, row));
    else if (w->rank == 0)
        print_rows(c, m, row);
    for (int i = 0; i < OVERHEAD_ROWS; i++)
        bad += !row[i].valid;
    if (bad > 0)
        return status_fail(STATUS_MISMATCH, "%d of %d rows did not do what was timed", bad,
                           OVERHEAD_ROWS);
    return STATUS_OK;
}

static enum status run(const struct overhead_config *c, struct world *w)
{
    const struct device_list host = {.n = 1};
    const struct train_config train = train_config_default();
    struct overhead_row row[OVERHEAD_ROWS];
    struct micro m = {.dev = NULL};
    enum status st;
    CHECK(world_open(&train, &host, w));
    CHECK(micro_open(c->devices, c->threads, &m));
    CHECK(overhead_launch(&c->timing, &m, &row[0]));
    CHECK(overhead_event(&c->timing, &m, &row[1]));
    CHECK(overhead_step(&c->timing, &m, &row[2]));
    CHECK(overhead_record(&c->timing, &row[3]));
    CHECK(overhead_allreduce(&c->timing, w, &row[4]));
    CHECK(stop_check());
    CHECK(report(c, &m, w, row));
done:
    micro_close(&m);
    return st;
}

enum status bench_overhead(const struct overhead_config *c)
{
    struct world w = {0};
    enum status st = run(c, &w);
    fflush(c->out); /* comm_fail may end the process */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    world_close(&w);
    return st;
}
