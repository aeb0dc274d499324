/* bench overhead: measures the allreduce row, lists all rows, and prints them. */
#include "bench/overhead.h"

#include "base/stop.h"
#include "base/thread_pool.h"
#include "bench/collective.h"
#include "bench/record.h"
#include "comm/world.h"

/* --- allreduce --- */

enum { THREADS = 2, BYTES = 4 };

struct sums {
    struct collective_config config;
    struct comm *const *comm;
    struct collective_buffers buffers[THREADS];
    struct collective_row row; /* of the first member */
};

static enum status sum_member(void *context, int member)
{
    struct sums *s = context;
    struct collective_row other;
    struct comm *comm = s->comm[member];
    enum status st;
    CHECK(collective_buffers_open(comm, comm, BYTES, 1, &s->buffers[member]));
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
    s.config.options.timing = *timing;
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

/* --- printing --- */

static void overhead_columns(struct bench_table *t, const void *row)
{
    const struct overhead_row *w = row;
    column_text(t, "what", "what", -10, w->name);
    harness_columns(t, "n", &w->time);
    column_real(t, NULL, "us", 10, 3, 1e6, w->time.median);
    column_real(t, NULL, "p5", 10, 3, 1e6, w->time.p5);
    column_real(t, NULL, "p95", 10, 3, 1e6, w->time.p95);
    column_int(t, NULL, "n", 6, w->time.n);
    column_int(t, "done", "done", 8, w->done);
    column_bool(t, "valid", w->valid);
    column_text(t, NULL, "valid", 0, w->valid ? "yes" : "NO");
}

static enum status overhead_print(const struct bench_options *o, const struct micro *m,
                                  const struct world *w, const struct overhead_row *row)
{
    struct bench_table t = bench_table_of(o, overhead_columns, NULL);
    const struct bench_head head = {"overhead", OVERHEAD_SCHEMA, m->about, m->dev->threads};
    const char *network = w->size > 1 ? world_network(w) : "threads of one process";
    if (o->format == BENCH_TEXT)
        fprintf(o->out, "%s\n", m->about);
    bench_table_rows(&t, row, OVERHEAD_ROWS, sizeof *row);
    return bench_record_rows(
        &head,
        json_pack("{s:i, s:s}", "ranks", w->size > 1 ? w->size : THREADS, "network", network),
        "rows", &t);
}

static enum status overhead_report(const struct bench_options *o, const struct micro *m,
                                   const struct world *w, const struct overhead_row *row)
{
    int bad = 0;
    if (w->rank == 0)
        TRY(overhead_print(o, m, w, row));
    for (int i = 0; i < OVERHEAD_ROWS; i++)
        bad += !row[i].valid;
    if (bad > 0)
        return status_fail(STATUS_MISMATCH,
                           "%d of %d rows are not valid: the results of the timed calls are wrong",
                           bad, OVERHEAD_ROWS);
    return STATUS_OK;
}

static enum status overhead_run(const struct bench_options *o, struct world *w)
{
    const struct world_config meeting = world_config_default();
    struct overhead_row row[OVERHEAD_ROWS];
    struct micro m = {.dev = NULL};
    enum status st;
    CHECK(world_open(&meeting, w));
    CHECK(micro_open(o->devices, o->threads, &m));
    bar_begin(w->rank == 0 ? o->timing.bar : NULL, OVERHEAD_ROWS);
    CHECK(overhead_launch(&o->timing, &m, &row[0]));
    CHECK(overhead_event(&o->timing, &m, &row[1]));
    CHECK(overhead_step(&o->timing, &m, &row[2]));
    CHECK(overhead_record(&o->timing, &row[3]));
    CHECK(overhead_allreduce(&o->timing, w, &row[4]));
    bar_step(o->timing.bar);
    CHECK(stop_check());
    CHECK(overhead_report(o, &m, w, row));
done:
    micro_close(&m);
    return st;
}

enum status bench_overhead(const struct bench_options *o)
{
    struct world w = {0};
    if (o->timing.most > OVERHEAD_ITERS_MAX || o->timing.warmup > OVERHEAD_ITERS_MAX)
        return status_fail(STATUS_USAGE, "-n and -w: give at most %d for bench overhead",
                           OVERHEAD_ITERS_MAX);
    enum status st = overhead_run(o, &w);
    fflush(o->out); /* comm_fail may end the process before the output is flushed */
    if (st != STATUS_OK && w.size > 1)
        comm_fail(w.comm, st, status_message());
    world_close(&w);
    return st;
}
