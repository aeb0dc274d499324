/* nccl-tests' table of an all-reduce. */
#include "predict/nccl_table.h"

#include "results/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 1024, HOST_SIZE = 64, WORDS_MAX = 16 };

/* A row: size, count, type, redop, root, then time, algbw, busbw and #wrong, out of place and in
 * place; times in us. */
enum { WORD_SIZE = 0, WORD_IN = 9, WORDS = 13, WORD_ALGBW = 1, WORD_BUSBW = 2 };
enum { WORD_WRONG = 3 };

/* Bandwidths are printed with two digits at least: how far their ratio may be off. */
#define RATIO_TOLERANCE 0.03

#define BYTES_MAX   1e15
#define SECONDS_MAX 1e6

struct reading {
    struct nccl_table *out;
    int n_hosts;
    char (*host)[HOST_SIZE];
    double ratio; /* bus by algorithm bandwidth, of the row where they have the most digits */
    double algbw; /* in that row */
};

/* "#  Rank  3 Group  0 Pid  411 on  node1 device  3 [0x07] NVIDIA ...": another rank, and perhaps
 * another host. */
static enum status rank_read(struct reading *r, const char *line)
{
    char host[HOST_SIZE];
    int64_t rank;
    if (sscanf(line, "# Rank %" SCNd64 " %*[^\n]", &rank) != 1)
        return STATUS_OK;
    const char *on = strstr(line, " on ");
    if (!on || sscanf(on, " on %63s", host) != 1)
        return STATUS_OK;
    r->out->ranks++;
    for (int i = 0; i < r->n_hosts; i++)
        if (strcmp(r->host[i], host) == 0)
            return STATUS_OK;
    if (r->n_hosts == HOSTS_MAX)
        return status_fail(STATUS_DATA, "more than %d hosts", HOSTS_MAX);
    memcpy(r->host[r->n_hosts++], host, sizeof host);
    r->out->nodes++;
    return STATUS_OK;
}

static enum status number(const char *word, double max, double *out)
{
    char *end;
    *out = strtod(word, &end);
    if (end == word || *end != '\0' || !(*out >= 0 && *out <= max))
        return status_fail(STATUS_DATA, "'%.20s' is no number of such a table", word);
    return STATUS_OK;
}

static enum status row_read(struct reading *r, char *word[])
{
    struct nccl_table *t = r->out;
    struct nccl_row row;
    double algbw, busbw;
    TRY(number(word[WORD_SIZE], BYTES_MAX, &row.bytes));
    TRY(number(word[WORD_IN], SECONDS_MAX * 1e6, &row.seconds));
    TRY(number(word[WORD_IN + WORD_ALGBW], 1e9, &algbw));
    TRY(number(word[WORD_IN + WORD_BUSBW], 1e9, &busbw));
    const char *wrong = word[WORD_IN + WORD_WRONG];
    if (strcmp(wrong, "N/A") != 0 && strtod(wrong, NULL) != 0)
        return status_fail(STATUS_MISMATCH, "%.20s results were wrong", wrong);
    row.seconds *= 1e-6;
    if (row.bytes == 0)
        return STATUS_OK;
    if (t->n == NCCL_ROWS_MAX)
        return status_fail(STATUS_DATA, "more than %d rows", NCCL_ROWS_MAX);
    if (row.seconds <= 0 || (t->n > 0 && row.bytes <= t->row[t->n - 1].bytes))
        return status_fail(STATUS_DATA, "sizes do not ascend, or took no time");
    if (algbw > r->algbw) {
        r->algbw = algbw;
        r->ratio = busbw / algbw;
    }
    t->row[t->n++] = row;
    return STATUS_OK;
}

static enum status line_read(struct reading *r, char *line)
{
    char *word[WORDS_MAX], *rest;
    int n = 0;
    if (*line == '#')
        return rank_read(r, line);
    for (char *w = strtok_r(line, " \t\r", &rest); w && n < WORDS_MAX;
         w = strtok_r(NULL, " \t\r", &rest))
        word[n++] = w;
    if (n != WORDS || word[0][strspn(word[0], "0123456789")] != '\0')
        return STATUS_OK; /* some other line of the job's */
    return row_read(r, word);
}

static enum status check_whole(const struct reading *r, const char *path)
{
    const struct nccl_table *t = r->out;
    double n = (double)t->ranks;
    if (t->ranks < 2)
        return status_fail(STATUS_DATA,
                           "'%s' does not name two ranks or more: give all that all_reduce_perf "
                           "printed",
                           path);
    if (t->n < 2)
        return status_fail(STATUS_DATA, "'%s' has not two rows of sizes and times", path);
    if (fabs(r->ratio - 2 * (n - 1) / n) > RATIO_TOLERANCE * r->ratio)
        return status_fail(STATUS_DATA,
                           "'%s' is no all-reduce over %" PRId64
                           " ranks: its bus bandwidth is %.2f times its algorithm's",
                           path, t->ranks, r->ratio);
    return STATUS_OK;
}

enum status nccl_table_load(const char *path, struct nccl_table *out)
{
    enum status st;
    struct lines l = {.fd = -1};
    *out = (struct nccl_table){0};
    struct reading r = {.out = out, .host = calloc(HOSTS_MAX, sizeof *r.host)};
    if (!r.host)
        return status_fail(STATUS_OOM, "no memory to read '%s'", path);
    CHECK(lines_open(&l, path));
    for (;;) {
        char *line;
        size_t size;
        CHECK(lines_next(&l, &line, &size));
        if (!line)
            break;
        st = line_read(&r, line);
        if (st != STATUS_OK) {
            st = status_context(st, "'%s', line %" PRId64, path, l.number);
            goto done;
        }
    }
    st = check_whole(&r, path);
done:
    lines_close(&l);
    free(r.host);
    return st;
}

double nccl_table_at(const struct nccl_table *t, double bytes)
{
    const struct nccl_row *row = t->row;
    if (bytes <= row[0].bytes)
        return row[0].seconds;
    int i = 1;
    while (i < t->n - 1 && row[i].bytes < bytes)
        i++;
    double slope = (row[i].seconds - row[i - 1].seconds) / (row[i].bytes - row[i - 1].bytes);
    return fmax(row[i - 1].seconds + slope * (bytes - row[i - 1].bytes), row[0].seconds);
}

/* Least squares of (latency + bytes s) / seconds - 1. Its normal equations, and where one part
 * comes out negative, the best line without it. */
void nccl_table_fit(const struct nccl_table *t, double *latency_s, double *s_per_byte)
{
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
    for (int i = 0; i < t->n; i++) {
        double a = 1 / t->row[i].seconds, b = t->row[i].bytes / t->row[i].seconds;
        aa += a * a;
        ab += a * b;
        bb += b * b;
        a1 += a;
        b1 += b;
    }
    double det = aa * bb - ab * ab;
    *latency_s = (a1 * bb - b1 * ab) / det;
    *s_per_byte = (b1 * aa - a1 * ab) / det;
    if (!(*latency_s >= 0)) {
        *latency_s = 0;
        *s_per_byte = b1 / bb;
    } else if (!(*s_per_byte >= 0)) {
        *latency_s = a1 / aa;
        *s_per_byte = 0;
    }
}
