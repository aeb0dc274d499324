/* Makes the lines of figures from studies and published tables. */
#include "plots/study_line.h"

#include "base/array.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct study_value unknown = {.mid = NAN, .low = NAN, .high = NAN, .ideal = NAN};

static struct study_value only(double mid)
{
    struct study_value v = unknown;
    v.mid = mid;
    return v;
}

static struct study_value scaled(const struct study_value *v, double factor)
{
    return (struct study_value){.mid = v->mid * factor,
                                .low = v->low * factor,
                                .high = v->high * factor,
                                .ideal = v->ideal * factor};
}

static struct study_value measured(const struct analysis_measure *m)
{
    return (struct study_value){.mid = m->median, .low = m->low, .high = m->high, .ideal = NAN};
}

static struct study_point *point_add(struct study_line *l, double x)
{
    struct study_point *p = &l->point[l->n++];
    p->x = x;
    for (int q = 0; q < QUANTITIES; q++)
        p->value[q] = unknown;
    return p;
}

/* Computes further quantities from throughput and efficiency: the ideals, the throughput per
 * device, the speed-up, and the error bar of the efficiency. `first` is the first point of the
 * line. */
static void rates_complete(struct study_point *p, const struct study_point *first)
{
    struct study_value *v = p->value, *rate = &v[QUANTITY_RATE];
    double per_first = first->value[QUANTITY_RATE].mid;
    rate->ideal = 100 * rate->mid / v[QUANTITY_EFFICIENCY].mid;
    v[QUANTITY_PER_DEVICE] = scaled(rate, 1 / p->x);
    v[QUANTITY_SPEEDUP] = scaled(rate, 1 / per_first);
    double spread = v[QUANTITY_EFFICIENCY].mid / rate->mid;
    v[QUANTITY_EFFICIENCY].low = rate->low * spread;
    v[QUANTITY_EFFICIENCY].high = rate->high * spread;
    v[QUANTITY_EFFICIENCY].ideal = v[QUANTITY_EFFICIENCY_WALL].ideal = 100;
    v[QUANTITY_TIME].ideal = v[QUANTITY_TIME].mid * v[QUANTITY_EFFICIENCY_WALL].mid / 100;
}

/* Returns the efficiency of the cell relative to the first cell of the line, percent. */
static double efficiency(const struct analysis_cell *c, const struct analysis_measure *of,
                         const struct analysis_cell *first, const struct analysis_measure *base)
{
    return 100 * of->median / base->median * (double)first->devices / (double)c->devices;
}

static void cell_add(struct study_line *l, const struct analysis_cell *c,
                     const struct analysis_cell *first)
{
    struct study_point *p = point_add(l, (double)c->devices);
    struct study_value *v = p->value;
    v[QUANTITY_RATE] = measured(&c->images_per_s);
    v[QUANTITY_TIME] = measured(&c->seconds);
    v[QUANTITY_EFFICIENCY] = only(efficiency(c, &c->images_per_s, first, &first->images_per_s));
    v[QUANTITY_EFFICIENCY_WALL] = measured(&c->wall);
    v[QUANTITY_EFFICIENCY_WALL] =
        scaled(&v[QUANTITY_EFFICIENCY_WALL],
               efficiency(c, &c->wall, first, &first->wall) / c->wall.median);
    v[QUANTITY_READ] = only(1e-6 * c->io.bytes_per_s);
    v[QUANTITY_STORAGE] = only(1e-6 * c->io.storage_bytes_per_s);
    rates_complete(p, &l->point[0]);
}

/* Adds a line with space for `points` points. */
static enum status line_open(struct study_lines *l, int64_t points, struct study_line **line)
{
    *line = &l->line[l->n];
    TRY(array_new(&(*line)->point, points));
    l->n++;
    return STATUS_OK;
}

static const struct analysis_cell *last_of(const struct analysis *a, int64_t series)
{
    const struct analysis_series *s = &a->series[series];
    return &a->cell[s->cell[s->n - 1]];
}

/* Sets all keys except the batch. study_labels_make sets the batch if a label needs it. */
static void keys_set(struct study_line *l, const struct analysis_cell *c, const char *scaling)
{
    char precision[ANALYSIS_TEXT_SIZE];
    const char *const text[STUDY_KEYS] = {
        c->mode, analysis_precision_label(c, precision), c->arch, c->data, scaling, ""};
    for (int k = 0; k < STUDY_KEYS; k++)
        text_clean(l->key[k], STUDY_KEY_MAX, text[k]);
}

void study_lines_vary(const struct study_lines *l, const bool *which, bool varies[STUDY_KEYS])
{
    const struct study_line *first = NULL;
    memset(varies, 0, STUDY_KEYS * sizeof *varies);
    for (int i = 0; i < l->n; i++) {
        if (l->line[i].is_published || (which && !which[i]))
            continue;
        first = first ? first : &l->line[i];
        for (int k = 0; k < STUDY_KEYS; k++)
            varies[k] = varies[k] || strcmp(l->line[i].key[k], first->key[k]) != 0;
    }
}

void study_line_name(const struct study_line *l, const bool shown[STUDY_KEYS], const char *between,
                     char name[FIGURE_LABEL_MAX])
{
    char text[STUDY_KEYS * (STUDY_KEY_MAX + 2)] = "";
    for (int k = 0; k < STUDY_BATCH; k++)
        if (shown[k] && l->key[k][0])
            text_join(text, sizeof text, between, "%s", l->key[k]);
    text_clean(name, FIGURE_LABEL_MAX - 24, text); /* the rest of the space is for the batch */
    if (shown[STUDY_BATCH] && l->key[STUDY_BATCH][0])
        text_join(name, FIGURE_LABEL_MAX, between, "%s", l->key[STUDY_BATCH]);
}

/* Makes the labels. A label contains the mode, the precision, and the other keys in which the lines
 * differ. If the labels of two lines are still equal, the batch is appended to both. */
static void study_labels_make(const struct analysis *a, struct study_lines *l)
{
    bool shown[STUDY_KEYS], is_double[STUDY_LINES_MAX] = {false};
    study_lines_vary(l, NULL, shown);
    shown[STUDY_MODE] = shown[STUDY_PRECISION] = shown[STUDY_BATCH] = true;
    for (int i = 0; i < l->n; i++)
        study_line_name(&l->line[i], shown, " ", l->line[i].label);
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->n; k++)
            if (k != i && strcmp(l->line[k].label, l->line[i].label) == 0)
                is_double[i] = true;
    for (int i = 0; i < l->n; i++) {
        const struct analysis_cell *c = last_of(a, i);
        if (!is_double[i])
            continue;
        snprintf(l->line[i].key[STUDY_BATCH], STUDY_KEY_MAX, "b%" PRId64,
                 l->line[i].is_weak ? c->batch / c->devices : c->batch);
        study_line_name(&l->line[i], shown, " ", l->line[i].label);
    }
}

enum status study_lines_add(struct study_lines *l, const struct analysis *a)
{
    l->left_out += a->n_series > STUDY_LINES_MAX ? a->n_series - STUDY_LINES_MAX : 0;
    for (int64_t i = 0; i < a->n_series && l->n < STUDY_LINES_MAX; i++) {
        const struct analysis_series *s = &a->series[i];
        const enum analysis_scaling scaling = analysis_series_scaling(a, i);
        struct study_line *line;
        TRY(line_open(l, s->n, &line));
        line->is_strong = scaling == ANALYSIS_STRONG;
        line->is_weak = !line->is_strong;
        keys_set(line, last_of(a, i), analysis_scaling_str(scaling));
        for (int64_t k = 0; k < s->n; k++)
            if (a->cell[s->cell[k]].images_per_s.n > 0)
                cell_add(line, &a->cell[s->cell[k]], &a->cell[s->cell[0]]);
    }
    study_labels_make(a, l);
    return STATUS_OK;
}

/* A single repeat, or equal ones, have no bar. */
static void epoch_add(struct study_line *l, const struct analysis_epoch *e)
{
    struct study_point *p = point_add(l, (double)e->epoch);
    for (int k = 0; k < ANALYSIS_ACCURACIES; k++) {
        struct study_value *v = &p->value[QUANTITY_ACCURACY + k];
        v->mid = e->accuracy[k].median;
        if (e->accuracy[k].low < e->accuracy[k].high) {
            v->low = e->accuracy[k].low;
            v->high = e->accuracy[k].high;
        }
    }
}

enum status study_lines_add_cells(struct study_lines *l, const struct analysis *a)
{
    bool shown[STUDY_KEYS];
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        struct study_line *line;
        l->left_out += c->n_epochs > 0 && l->n == STUDY_LINES_MAX;
        if (c->n_epochs == 0 || l->n == STUDY_LINES_MAX)
            continue;
        TRY(line_open(l, c->n_epochs, &line));
        keys_set(line, c, "");
        snprintf(line->key[STUDY_BATCH], STUDY_KEY_MAX, "%" PRId64 "x%" PRId64, c->devices,
                 c->batch / c->devices);
        for (int64_t k = 0; k < c->n_epochs; k++)
            epoch_add(line, &c->epoch[k]);
    }
    study_lines_vary(l, NULL, shown);
    shown[STUDY_MODE] = shown[STUDY_PRECISION] = shown[STUDY_BATCH] = true;
    for (int i = 0; i < l->n; i++)
        study_line_name(&l->line[i], shown, " ", l->line[i].label);
    return STATUS_OK;
}

static void row_add(struct study_line *l, const struct published_series *s, int i)
{
    const struct published_point *row = &s->point[i], *first = &s->point[0];
    struct study_point *p = point_add(l, (double)row->gpus);
    struct study_value *v = p->value;
    double ideal_s = first->train_time_s * (double)first->gpus / (double)row->gpus;
    v[QUANTITY_RATE] = only(row->images_per_s);
    v[QUANTITY_TIME] = only(row->train_time_s);
    v[QUANTITY_EFFICIENCY] = only(published_efficiency(s, i));
    v[QUANTITY_EFFICIENCY_WALL] = only(100 * ideal_s / row->train_time_s);
    rates_complete(p, &l->point[0]);
}

enum status study_lines_add_published(struct study_lines *l, const struct published_series *s)
{
    l->left_out += l->n == STUDY_LINES_MAX;
    if (l->n == STUDY_LINES_MAX)
        return STATUS_OK;
    struct study_line *line;
    TRY(line_open(l, s->n, &line));
    line->is_published = true;
    snprintf(line->label, sizeof line->label, "published: %s %s", s->name, s->hardware);
    memcpy(line->key[STUDY_ARCH], s->arch, sizeof s->arch);
    memcpy(line->key[STUDY_PRECISION], s->precision, sizeof s->precision);
    memcpy(line->key[STUDY_DATA], s->data, sizeof s->data);
    for (int i = 0; i < s->n; i++)
        row_add(line, s, i);
    return STATUS_OK;
}

void study_lines_free(struct study_lines *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->line[i].point);
    l->n = 0;
}
