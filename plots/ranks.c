/* Draws the parts of each rank's step, and marks a straggler. */
#include "results/ranks.h"
#include "base/text.h"
#include "plots/figure.h"
#include "plots/series.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { HOST_MAX = 48 };

/* Writes a host's name for a table, with '?' in place of characters that are special to gnuplot. */
static void host_clean(char out[HOST_MAX], const char *host)
{
    size_t n = 0;
    for (; host[n] && n < HOST_MAX - 1; n++) {
        char c = host[n];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     c == '.' || c == '-' || c == '_';
        out[n] = plain ? c : '?';
    }
    if (n == 0)
        out[n++] = '?'; /* gnuplot would not read an empty name as a column */
    out[n] = '\0';
}

/* Writes a row for each rank: its number, 0, and the upper end of each part in ms. If there are
 * more than FIGURE_MAX_ROWS ranks, omits some of them, but never the slowest rank. */
static void write_bars(const struct ranks *r, FILE *out, bool used[RANK_PARTS], double *top)
{
    int64_t stride = series_stride(r->n, FIGURE_MAX_ROWS);
    for (int64_t i = 0; i < r->n; i++) {
        double sum = 0, upper[RANK_PARTS];
        if (i % stride != 0 && i != r->slowest)
            continue;
        fprintf(out, "%" PRId64 " 0", i);
        for (int p = 0; p < RANK_PARTS; p++)
            upper[p] = sum += 1e3 * r->rank[i].part[p];
        for (int p = 0; p < RANK_PARTS; p++) {
            fprintf(out, " %.9g", upper[p]);
            used[p] = used[p] || 1e3 * r->rank[i].part[p] > FIGURE_VISIBLE_SHARE * sum;
        }
        fputc('\n', out);
        *top = fmax(*top, sum);
    }
}

/* Writes rows "first-rank last-rank name", one for each range of ranks on one host. */
static void write_hosts(const struct ranks *r, FILE *out)
{
    for (int64_t first = 0, i = 1; i <= r->n; i++) {
        char host[HOST_MAX];
        if (i < r->n && strcmp(r->rank[i].host, r->rank[first].host) == 0)
            continue;
        host_clean(host, r->rank[first].host);
        fprintf(out, "%" PRId64 " %" PRId64 " %s\n", first, i - 1, host);
        first = i;
    }
}

static enum status ranks_table(const struct drawing *d, const struct figure *f, int i,
                               const struct ranks *r, bool used[RANK_PARTS], double *top)
{
    struct atomic_file table;
    TRY(figure_table(d, f, i, &table));
    write_bars(r, table.stream, used, top);
    fputs("\n\n", table.stream); /* gnuplot: the part after two blank lines is `index 1` */
    write_hosts(r, table.stream);
    return atomic_file_commit(&table);
}

/* Sets element `i` (from 0) of a gnuplot array. figure_ranks declares the array. */
static void set_element(FILE *vars, const char *array, int i, double value)
{
    char name[32];
    snprintf(name, sizeof name, "%s[%d]", array, i + 1);
    figure_set(vars, name, value);
}

static void set_finding(FILE *vars, int i, const struct ranks *r, double top)
{
    char name[32], host[HOST_MAX];
    set_element(vars, "n_ranks", i, (double)r->n);
    set_element(vars, "ranks_a_bar", i, (double)series_stride(r->n, FIGURE_MAX_ROWS));
    set_element(vars, "top_ms", i, top);
    set_element(vars, "median_ms", i, 1e3 * r->median_own_s);
    set_element(vars, "slowest", i, (double)r->slowest);
    set_element(vars, "slowest_ms", i, 1e3 * r->rank[r->slowest].own_s);
    set_element(vars, "behind", i, 100 * r->behind);
    set_element(vars, "behind_in", i, r->part + 1);
    set_element(vars, "behind_ms", i, 1e3 * r->part_s);
    set_element(vars, "is_straggler", i, r->slow);
    set_element(vars, "bound", i, 100 * fmax(RANKS_BEHIND, r->noise));
    snprintf(name, sizeof name, "slowest_host[%d]", i + 1);
    text_clean(host, sizeof host, r->rank[r->slowest].host);
    figure_set_text(vars, name, host);
}

enum status figure_ranks(const struct drawing *d, const struct figure *f, FILE *vars,
                         bool has[FIGURE_BARS_MAX])
{
    static const char *const arrays[] = {"n_ranks",   "ranks_a_bar",  "top_ms",       "median_ms",
                                         "slowest",   "slowest_ms",   "behind",       "behind_in",
                                         "behind_ms", "slowest_host", "is_straggler", "bound"};
    bool used[RANK_PARTS] = {false};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        fprintf(vars, "array %s[%d]\n", arrays[k], d->n);
    for (int i = 0; i < d->n; i++) {
        struct ranks r;
        double top = 0;
        TRY(ranks_of(d->run[i], &r));
        has[i] = r.n > 0;
        enum status st = has[i] ? ranks_table(d, f, i, &r, used, &top) : STATUS_OK;
        if (has[i] && st == STATUS_OK)
            set_finding(vars, i, &r, top);
        ranks_free(&r);
        TRY(st);
    }
    figure_set_runs(vars, "used_parts", used, RANK_PARTS);
    return STATUS_OK;
}
