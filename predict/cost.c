/* Computes the time of an all-reduce from latency and bandwidth, and reads nccl-tests' tables. */
#include "predict/cost.h"

#include "base/array.h"
#include "base/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 1024, HOST_SIZE = 64, WORDS_MAX = 16 };

/* The words of a row: size, count, type, redop, root; then time in us, algbw, busbw and #wrong of
 * the operation out of place; then the same four words of the operation in place. */
enum { WORD_SIZE = 0, WORD_IN = 9, WORDS = 13, WORD_ALGBW = 1, WORD_BUSBW = 2 };
enum { WORD_WRONG = 3 };

/* The ratio of two bandwidths has at most this relative error, if both are printed with at least
 * two digits. */
#define RATIO_TOLERANCE 0.03

#define BYTES_MAX   1e15
#define SECONDS_MAX 1e6

struct reading {
    struct nccl_table *out;
    int n_hosts;
    char (*host)[HOST_SIZE];
    double ratio; /* bus bandwidth / algorithm bandwidth, from the row with the largest algorithm
                   * bandwidth: there the two numbers have the most digits */
    double algbw; /* algorithm bandwidth in that row */
};

/* Reads a line such as "# Rank 3 Group 0 Pid 411 on node1 device 3 [0x07] NVIDIA ...". Counts the
 * rank. Adds its host if no earlier line names this host. */
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
        return status_fail(STATUS_DATA, "the table has more than %d hosts", HOSTS_MAX);
    memcpy(r->host[r->n_hosts++], host, sizeof host);
    r->out->nodes++;
    return STATUS_OK;
}

static enum status number(const char *word, double max, double *out)
{
    char *end;
    *out = strtod(word, &end);
    if (end == word || *end != '\0' || !(*out >= 0 && *out <= max))
        return status_fail(STATUS_DATA, "'%.20s' is not a number, or is out of range", word);
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
        return status_fail(STATUS_MISMATCH, "the table reports %.20s wrong results", wrong);
    row.seconds *= 1e-6;
    if (row.bytes == 0)
        return STATUS_OK;
    if (t->n == NCCL_ROWS_MAX)
        return status_fail(STATUS_DATA, "more than %d rows", NCCL_ROWS_MAX);
    if (row.seconds <= 0 || (t->n > 0 && row.bytes <= t->row[t->n - 1].bytes))
        return status_fail(STATUS_DATA, "the sizes do not ascend, or a time is 0");
    if (algbw > r->algbw) {
        r->algbw = algbw;
        r->ratio = busbw / algbw;
    }
    t->row[t->n++] = row;
    return STATUS_OK;
}

static enum status line_read(void *context, char *line, size_t size)
{
    struct reading *r = context;
    (void)size;
    char *word[WORDS_MAX], *rest;
    int n = 0;
    if (*line == '#')
        return rank_read(r, line);
    for (char *w = strtok_r(line, " \t\r", &rest); w && n < WORDS_MAX;
         w = strtok_r(NULL, " \t\r", &rest))
        word[n++] = w;
    if (n != WORDS || word[0][strspn(word[0], "0123456789")] != '\0')
        return STATUS_OK; /* not a row: the job printed this line */
    return row_read(r, word);
}

static enum status check_whole(const struct reading *r, const char *path)
{
    const struct nccl_table *t = r->out;
    double n = (double)t->ranks;
    if (t->ranks < 2)
        return status_fail(
            STATUS_DATA,
            "'%s' lists fewer than two ranks: give the whole output of all_reduce_perf", path);
    if (t->n < 2)
        return status_fail(STATUS_DATA, "'%s' has fewer than two rows of sizes and times", path);
    if (fabs(r->ratio - 2 * (n - 1) / n) > RATIO_TOLERANCE * r->ratio)
        return status_fail(STATUS_DATA,
                           "'%s' is not an all-reduce over %" PRId64
                           " ranks: its bus bandwidth is %.2f times its algorithm bandwidth",
                           path, t->ranks, r->ratio);
    return STATUS_OK;
}

enum status nccl_table_load(const char *path, struct nccl_table *out)
{
    enum status st;
    *out = (struct nccl_table){0};
    struct reading r = {.out = out};
    TRY(array_new(&r.host, HOSTS_MAX));
    st = lines_each(path, false, line_read, &r);
    st = st == STATUS_OK ? check_whole(&r, path) : st;
    free(r.host);
    return st;
}

/* Returns the seconds of an all-reduce of `bytes` bytes. Interpolates linearly between rows. Below
 * the first row's bytes, the result is the first row's time. Above the last row's bytes,
 * extrapolates from the last two rows. */
static double table_at(const struct nccl_table *t, double bytes)
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

double cost_allreduce(const struct network_cost *c, int64_t ranks, double bytes)
{
    if (ranks < 2)
        return 0;
    double n = (double)ranks, per_node = (double)c->ranks_per_node, m = ceil(n / per_node);
    double within = c->ranks_per_node > 1 ? c->intra.bytes_per_s : INFINITY;
    double narrowest = m > 1 ? fmin(within, c->inter.bytes_per_s) : within;
    double ring = 2 * (m - 1) * c->inter.latency_s + 2 * (n - m) * c->intra.latency_s +
                  2 * (n - 1) / n * bytes / narrowest;
    double tree = 2 * ceil(log2(m)) * c->inter.latency_s +
                  2 * (fmin(n, per_node) - 1) * c->intra.latency_s + 2 * bytes / narrowest;
    double low = 0, high = c->algorithm == COST_RING   ? ring
                           : c->algorithm == COST_TREE ? tree
                                                       : fmin(ring, tree);
    for (int i = 0; i < c->n_tables; i++) {
        double s = table_at(&c->table[i], bytes);
        if (c->table[i].ranks <= ranks)
            low = fmax(low, s);
        if (c->table[i].ranks >= ranks)
            high = fmin(high, s);
    }
    return fmax(low, high);
}

/* If `several` is true, returns the largest table (by ranks) among those measured on several nodes;
 * otherwise the largest among those measured on one node. NULL: there is no such table. */
static const struct nccl_table *largest(const struct network_cost *c, bool several)
{
    const struct nccl_table *best = NULL;
    for (int i = 0; i < c->n_tables; i++) {
        const struct nccl_table *t = &c->table[i];
        if ((t->nodes > 1) == several && (!best || t->ranks > best->ranks))
            best = t;
    }
    return best;
}

/* Fits the line seconds = latency + bytes * s_per_byte: minimises the sum over the rows of
 * ((latency + bytes * s_per_byte) / seconds - 1)^2, by the normal equations. If the latency would
 * be negative, sets it to 0 and fits only the other parameter. `where` names the link in the
 * message. */
static enum status fit(const struct nccl_table *t, const char *where, double *latency_s,
                       double *s_per_byte)
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
    *latency_s = fmax((a1 * bb - b1 * ab) / det, 0);
    *s_per_byte = *latency_s > 0 ? (b1 * aa - a1 * ab) / det : b1 / bb;
    if (*s_per_byte > 0)
        return STATUS_OK;
    return status_fail(STATUS_DATA,
                       "the bandwidth %s is not known: larger messages did not take longer", where);
}

enum status cost_from_tables(struct network_cost *c)
{
    const struct nccl_table *within = largest(c, false), *between = largest(c, true);
    double latency, s_per_byte;
    if (within) {
        double n = (double)within->ranks;
        TRY(fit(within, "within a node", &latency, &s_per_byte));
        c->intra = (struct link){.latency_s = latency / (2 * (n - 1)),
                                 .bytes_per_s = 2 * (n - 1) / n / s_per_byte};
        c->ranks_per_node = within->ranks;
    }
    if (between) {
        double n = (double)between->ranks, m = (double)between->nodes;
        TRY(fit(between, "between nodes", &latency, &s_per_byte));
        if (!within) { /* a hop within a node cannot take longer than the mean of all hops */
            c->intra.latency_s = fmin(c->intra.latency_s, latency / (2 * (n - 1)));
            c->intra.bytes_per_s = fmax(c->intra.bytes_per_s, 2 * (n - 1) / n / s_per_byte);
        }
        latency -= 2 * (n - m) * c->intra.latency_s;
        c->inter = (struct link){.latency_s = fmax(latency, 0) / (2 * (m - 1)),
                                 .bytes_per_s = 2 * (n - 1) / n / s_per_byte};
        c->ranks_per_node = (between->ranks + between->nodes - 1) / between->nodes;
    }
    return STATUS_OK;
}
