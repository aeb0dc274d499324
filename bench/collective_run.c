/* Measures all sizes on the ranks of this process, and reports the times as the table of
 * nccl-tests, as CSV, or as a record. */
#include "base/json.h"
#include "bench/collective.h"

#include "base/array.h"
#include "base/thread_pool.h"
#include "bench/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct job {
    const struct collective_config *config;
    struct world *world;                  /* the processes */
    const struct collective_ranks *ranks; /* threads of this process */
    struct thread_pool *pool;
    struct collective_buffers buffers[COLLECTIVE_RANKS_MAX]; /* (members) */
    /* Written by the first member: */
    int rows, empty_rows;     /* with and without data; a size may be too small for all ranks */
    int failed;               /* number of results with wrong elements */
    int64_t wrong;            /* number of wrong elements */
    double busbw;             /* sum of busbw over the rows with data, both places */
    struct bench_table table; /* of rank 0; the text format is the table of nccl-tests instead */
};

static const char *const place_name[COLLECTIVE_PLACES] = {"out_of_place", "in_place"};

const char *collective_type_str(enum dtype type)
{
    static const char *const names[DTYPE_COUNT] = {
        [DTYPE_F32] = "float",  [DTYPE_F16] = "half",  [DTYPE_BF16] = "bfloat16",
        [DTYPE_F64] = "double", [DTYPE_I32] = "int32", [DTYPE_U8] = "uint8",
    };
    return (unsigned)type < DTYPE_COUNT && names[type] ? names[type] : "unknown";
}

static const char *redop(const struct collective_config *c)
{
    static const char *const names[] = {
        [COMM_SUM] = "sum", [COMM_MAX] = "max", [COMM_MIN] = "min", [COMM_AVG] = "avg"};
    return comm_reduces(c->kind) ? names[c->reduction] : "none";
}

/* Returns the root, or -1 if the kind has no root. */
static int root_of(const struct collective_config *c)
{
    return comm_has_root(c->kind) ? c->root : -1;
}

/* --- the table --- */

/* Writes a number in `width` (6 or 7) characters, in the first of these formats that fits: two
 * decimals, one decimal, no decimals, an exponent. `out` has width + 1 bytes. */
static void nccl_number(double value, int width, char *out)
{
    size_t size = (size_t)width + 1;
    for (int digits = 2; digits >= 0; digits--)
        if (snprintf(out, size, "%*.*f", width, digits, value) <= width)
            return;
    snprintf(out, size, "%*.*e", width, width >= 7 ? 1 : 0, value);
}

/* The memory of the data. */
static const char *memory_of(const struct job *j)
{
    return comm_device(j->ranks->comm[0]) ? "device" : "host";
}

static void nccl_print_header(const struct job *j)
{
    const struct collective_config *c = j->config;
    struct comm *comm = j->ranks->comm[0];
    int threads = j->ranks->members;
    const char *row = "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s \n";
    fprintf(c->options.out,
            "# nThread %d nGpus 1 minBytes %" PRId64 " maxBytes %" PRId64 " step: %" PRId64
            "(%s) warmup iters: %d iters: %d agg iters: %d validation: %d graph: 0\n#\n",
            threads, c->first, c->last, c->step ? c->step : c->factor, c->step ? "bytes" : "factor",
            c->options.timing.warmup, c->options.timing.most, c->aggregated, c->checks);
    fputs("# Using devices\n", c->options.out);
    for (int i = 0; i < comm_size(comm); i++) {
        const struct rank_info *p = &j->world->info[i / threads];
        fprintf(c->options.out,
                "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] memory, %s\n", i, 0, p->pid,
                p->host, i, memory_of(j), comm_name(comm));
    }
    if (j->ranks->why && *j->ranks->why)
        fprintf(c->options.out, "#  through host memory: %s\n", j->ranks->why);
    if (comm_size(comm) == 1)
        fputs("#  one rank: the values are checked, and no data moves between ranks\n",
              c->options.out);
    fprintf(c->options.out, "#\n# %10s  %12s  %8s  %6s  %6s  %s\n", "", "", "", "", "",
            "         out-of-place                       in-place          ");
    fprintf(c->options.out, row, "size", "count", "type", "redop", "root", "time", "algbw", "busbw",
            "#wrong", "time", "algbw", "busbw", "#wrong");
    fprintf(c->options.out, row, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "",
            "(us)", "(GB/s)", "(GB/s)", "");
}

static void nccl_print_time(const struct collective_time *t, FILE *out)
{
    char time[8], algbw[7], busbw[7];
    nccl_number(t->time.median * 1e6, 7, time);
    nccl_number(t->algbw, 6, algbw);
    nccl_number(t->busbw, 6, busbw);
    fprintf(out, "  %7s  %6s  %6s", time, algbw, busbw);
    if (t->wrong < 0)
        fputs("    N/A", out);
    else
        fprintf(out, "  %6g", (double)t->wrong);
}

static void nccl_print_row(const struct collective_config *c, struct bench_table *t,
                           const struct collective_row *row)
{
    char remarks[BENCH_REMARKS_MAX];
    fprintf(c->options.out, "%12" PRId64 "  %12" PRId64 "  %8s  %6s  %6d", row->bytes, row->count,
            collective_type_str(c->type), redop(c), root_of(c));
    for (int p = 0; p < COLLECTIVE_PLACES; p++)
        nccl_print_time(&row->place[p], c->options.out);
    fputc('\n', c->options.out);
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        bench_table_remarks(t, &row->place[p].time.noise, NAN, remarks);
        if (*remarks)
            fprintf(c->options.out, "# %s %s\n", place_name[p], remarks);
    }
    fflush(c->options.out);
}

static double average(const struct job *j)
{
    return j->rows > 0 ? j->busbw / (j->rows * COLLECTIVE_PLACES) : 0;
}

/* --- CSV and the record --- */

/* A line of the report, for one size. A line of the CSV has one time: out of place or in place
 * (`place`). A line of the record has both times. */
struct collective_line {
    const struct collective_row *row;
    int place;
};

static void collective_time_columns(struct bench_table *t, const struct collective_time *time)
{
    bool csv = t->format == BENCH_CSV;
    harness_columns(t, "n", &time->time);
    column_real(t, csv ? "algbw_gb_per_s" : "algbw", NULL, 0, 0, 1, time->algbw);
    column_real(t, csv ? "busbw_gb_per_s" : "busbw", NULL, 0, 0, 1, time->busbw);
    t->absent = csv && time->wrong < 0;
    if (time->wrong < 0)
        column_json(t, "wrong", json_null());
    else
        column_int(t, "wrong", NULL, 0, time->wrong);
    t->absent = false;
    column_noise(t, &time->time.noise, NAN);
}

static void collective_columns(struct bench_table *t, const void *line)
{
    const struct collective_line *l = line;
    const struct collective_config *c = t->context;
    if (t->format == BENCH_CSV) {
        column_text(t, "collective", NULL, 0, comm_kind_str(c->kind));
        column_text(t, "place", NULL, 0, place_name[l->place]);
    }
    column_int(t, "bytes", NULL, 0, l->row->bytes);
    column_int(t, "count", NULL, 0, l->row->count);
    if (t->format == BENCH_CSV) {
        column_text(t, "type", NULL, 0, collective_type_str(c->type));
        column_text(t, "redop", NULL, 0, redop(c));
        column_int(t, "root", NULL, 0, root_of(c));
        collective_time_columns(t, &l->row->place[l->place]);
        return;
    }
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        column_group_begin(t, place_name[p]);
        collective_time_columns(t, &l->row->place[p]);
        column_group_end(t);
    }
}

json_t *collective_config_json(const struct collective_config *c)
{
    return json_new("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:f, s:f}",
                    "collective", comm_kind_str(c->kind), "type", collective_type_str(c->type),
                    "redop", redop(c), "root", root_of(c), "min_bytes", (json_int_t)c->first,
                    "max_bytes", (json_int_t)c->last, "step_bytes", (json_int_t)c->step,
                    "step_factor", c->step ? 0 : c->factor, "warmup", c->options.timing.warmup,
                    "most", c->options.timing.most, "agg_iters", c->aggregated, "checks", c->checks,
                    "within", c->options.timing.within, "most_seconds", c->options.timing.seconds);
}

static json_t *collective_ranks_json(const struct job *j)
{
    json_t *ranks = json_array();
    for (int i = 0; i < comm_size(j->ranks->comm[0]); i++) {
        const struct rank_info *p = &j->world->info[i / j->ranks->members];
        json_add(ranks, json_new("{s:s, s:i}", "host", p->host, "pid", (int)p->pid));
    }
    return ranks;
}

/* --- reporting in any format --- */

static void report_begin(struct job *j)
{
    static const struct collective_row blank = {.bytes = 0};
    const struct bench_options *o = &j->config->options;
    j->table = bench_table_of(o, collective_columns, j->config);
    if (o->format == BENCH_TEXT)
        nccl_print_header(j);
    else
        bench_table_open(&j->table, &(struct collective_line){&blank, 0});
}

static void count_row(struct job *j, const struct collective_row *row)
{
    j->rows += row->bytes > 0;
    j->empty_rows += row->bytes == 0;
    for (int p = 0; p < COLLECTIVE_PLACES; p++) {
        j->failed += row->place[p].wrong > 0;
        j->wrong += row->place[p].wrong > 0 ? row->place[p].wrong : 0;
        j->busbw += row->place[p].busbw;
    }
}

static void report_row(struct job *j, const struct collective_row *row)
{
    struct collective_line line = {row, 0};
    bar_erase(j->table.bar);
    if (j->table.format == BENCH_TEXT)
        nccl_print_row(j->config, &j->table, row);
    else if (j->table.format == BENCH_JSON)
        bench_table_row(&j->table, &line);
    else
        for (; line.place < COLLECTIVE_PLACES; line.place++)
            bench_table_row(&j->table, &line);
}

static enum status report_end(struct job *j)
{
    const struct collective_config *c = j->config;
    const struct bench_head head = {"collective", 1, NULL, -1,
                                    .workers =
                                        c->options.devices || c->gpus ? 0 : j->ranks->members};
    json_t *wrong = c->checks > 0 ? json_integer(j->wrong) : json_null();
    char empty[64] = "";
    if (j->empty_rows > 0)
        snprintf(empty, sizeof empty, "# %-20s : %d, not in the average\n", "Rows of 0 bytes",
                 j->empty_rows);
    if (c->options.format == BENCH_TEXT)
        fprintf(c->options.out, "# %-20s : %d %s\n# %-20s : %g \n%s#\n", "Out of bounds values",
                j->failed, j->failed ? "FAILED" : "OK", "Avg bus bandwidth", average(j), empty);
    return bench_record_rows(
        &head,
        json_new("{s:o, s:s, s:s, s:s, s:{s:s}, s:o, s:o, s:f}", "config",
                 collective_config_json(c), "network", comm_name(j->ranks->comm[0]), "memory",
                 memory_of(j), "by_host_because", j->ranks->why ? j->ranks->why : "", "libraries",
                 "MPI", comm_mpi_version(), "ranks", collective_ranks_json(j), "wrong", wrong,
                 "mean_busbw", average(j)),
        "rows", &j->table);
}

/* --- the ranks of one process --- */

/* Returns size number i, in bytes, or -1 if i is beyond the last size. `before` is the previous
 * size. */
static int64_t size_number(const struct collective_config *c, int i, int64_t before)
{
    int64_t bytes = i == 0 ? c->first : c->step ? before + c->step : before * c->factor;
    return bytes <= c->last ? bytes : -1;
}

static int count_sizes(const struct collective_config *c)
{
    int n = 0;
    for (int64_t bytes = 0; (bytes = size_number(c, n, bytes)) > 0;)
        n++;
    return n;
}

/* Measures all sizes as one rank of the communicator. Rank 0, which is the first member of the
 * first process, prints the report. */
static enum status collective_member(struct job *j, int member)
{
    const struct collective_config *c = j->config;
    struct comm *comm = j->ranks->comm[member];
    struct collective_buffers *b = &j->buffers[member];
    bool reports = comm_rank(comm) == 0;
    struct bar *bar = c->options.timing.bar; /* progress bar, which rank 0 draws */
    struct collective_row row;
    if (reports)
        report_begin(j);
    TRY(collective_buffers_open(comm, j->ranks->words[member], c->last, c->aggregated, b));
    b->job = (struct harness_job){b->words, j->world->info, j->ranks->members};
    int64_t bytes = 0;
    if (reports)
        bar_begin(bar, count_sizes(c));
    for (int i = 0; (bytes = size_number(c, i, bytes)) > 0; i++) {
        TRY(collective_measure(c, comm, b, bytes, &row));
        if (member == 0)
            count_row(j, &row);
        if (!reports)
            continue;
        report_row(j, &row);
        bar_step(bar);
    }
    return reports ? report_end(j) : STATUS_OK;
}

static enum status member_run(void *context, int member)
{
    struct job *j = context;
    enum status st = collective_member(j, member);
    if (st == STATUS_OK)
        return st;
    char why[512];
    snprintf(why, sizeof why, "%s", status_message());
    comm_fail(j->ranks->comm[member], st, why);
    if (j->ranks->words[member] != j->ranks->comm[member])
        comm_fail(j->ranks->words[member], st, why);
    return status_fail(st, "%s", why);
}

enum status collective_run(const struct collective_config *c, struct world *w,
                           const struct collective_ranks *ranks)
{
    struct job *j;
    enum status st;
    CHECK(array_new(&j, 1));
    *j = (struct job){.config = c, .world = w, .ranks = ranks};
    CHECK(thread_pool_open(ranks->members, &j->pool));
    CHECK(thread_pool_run(j->pool, member_run, j));
    if (j->wrong > 0)
        st = status_fail(STATUS_MISMATCH, "%" PRId64 " elements of the results of %s are wrong",
                         j->wrong, comm_kind_str(c->kind));
done:
    for (int i = 0; i < ranks->members; i++)
        if (ranks->comm[i] != w->comm)
            comm_close(ranks->comm[i]);
    for (int i = 0; j && i < ranks->members; i++)
        collective_buffers_close(&j->buffers[i]);
    if (j) {
        thread_pool_close(j->pool);
        bench_table_close(&j->table);
    }
    free(j);
    return st;
}
