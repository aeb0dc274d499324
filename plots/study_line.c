/* Lines of studies and of published tables. */
#include "plots/study_line.h"

#include "results/text.h"

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

static struct study_point *point_add(struct study_line *l, double devices)
{
    struct study_point *p = &l->point[l->n++];
    p->devices = devices;
    for (int q = 0; q < QUANTITIES; q++)
        p->value[q] = unknown;
    return p;
}

/* What follows from throughput and its efficiency: the ideal, and the same by device and as
 * speed-up. `first` is the line's. */
static void rates_complete(struct study_point *p, const struct study_point *first)
{
    struct study_value *v = p->value, *rate = &v[QUANTITY_RATE];
    double per_first = first->value[QUANTITY_RATE].mid;
    rate->ideal = 100 * rate->mid / v[QUANTITY_EFFICIENCY].mid;
    v[QUANTITY_PER_DEVICE] = scaled(rate, 1 / p->devices);
    v[QUANTITY_SPEEDUP] = scaled(rate, 1 / per_first);
    double spread = v[QUANTITY_EFFICIENCY].mid / rate->mid;
    v[QUANTITY_EFFICIENCY].low = rate->low * spread;
    v[QUANTITY_EFFICIENCY].high = rate->high * spread;
    v[QUANTITY_EFFICIENCY].ideal = v[QUANTITY_EFFICIENCY_WALL].ideal = 100;
    v[QUANTITY_TIME].ideal = v[QUANTITY_TIME].mid * v[QUANTITY_EFFICIENCY_WALL].mid / 100;
}

static void cell_add(struct study_line *l, const struct analysis_cell *c)
{
    struct study_point *p = point_add(l, (double)c->devices);
    struct study_value *v = p->value;
    v[QUANTITY_RATE] = measured(&c->images_per_s);
    v[QUANTITY_TIME] = measured(&c->seconds);
    v[QUANTITY_EFFICIENCY] = only(100 * c->efficiency);
    v[QUANTITY_EFFICIENCY_WALL] = measured(&c->wall);
    v[QUANTITY_EFFICIENCY_WALL] =
        scaled(&v[QUANTITY_EFFICIENCY_WALL], 100 * c->efficiency_wall / c->wall.median);
    v[QUANTITY_TOP1] = only(c->top1);
    v[QUANTITY_TOP5] = only(c->top5);
    rates_complete(p, &l->point[0]);
}

/* A line with room for so many points; NULL when memory is short. */
static struct study_line *line_open(struct study_lines *l, int64_t points)
{
    struct study_line *line = &l->line[l->n];
    line->point = calloc((size_t)points, sizeof *line->point);
    if (!line->point)
        return NULL;
    l->n++;
    return line;
}

static enum status no_memory(void)
{
    return status_fail(STATUS_OOM, "no memory for a line of a figure");
}

/* Whether a setting is not the same in the last cells of all series. */
struct varies {
    bool arch, data, scaling;
};

static const struct analysis_cell *last_of(const struct analysis *a, int64_t series)
{
    const struct analysis_series *s = &a->series[series];
    return &a->cell[s->cell[s->n - 1]];
}

static struct varies varies_of(const struct analysis *a)
{
    struct varies v = {.arch = false};
    for (int64_t i = 1; i < a->n_series; i++) {
        const struct analysis_cell *c = last_of(a, i), *first = last_of(a, 0);
        v.arch = v.arch || strcmp(c->arch, first->arch) != 0;
        v.data = v.data || strcmp(c->data, first->data) != 0;
        v.scaling = v.scaling || c->scaling != first->scaling;
    }
    return v;
}

/* "ddp amp", with what else tells series apart: "resnet50", "synthetic", "weak". */
static void label_make(const struct analysis_cell *c, const struct varies *v,
                       char label[FIGURE_LABEL_MAX])
{
    char text[4 * ANALYSIS_NAME_SIZE];
    snprintf(text, sizeof text, "%s %s%s%s%s%s%s%s", c->mode, c->precision, v->arch ? " " : "",
             v->arch ? c->arch : "", v->data ? " " : "", v->data ? c->data : "",
             v->scaling ? " " : "", v->scaling ? analysis_scaling_str(c->scaling) : "");
    text_clean(label, FIGURE_LABEL_MAX - 24, text); /* room for what follows */
}

/* Labels that are the same get the batch, which is then what differs. */
static void labels_tell_apart(const struct analysis *a, struct study_lines *l)
{
    bool is_double[STUDY_LINES_MAX] = {false};
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->n; k++)
            if (k != i && strcmp(l->line[k].label, l->line[i].label) == 0)
                is_double[i] = true;
    for (int i = 0; i < l->n; i++) {
        const struct analysis_cell *c = last_of(a, i);
        size_t len = strlen(l->line[i].label);
        if (is_double[i])
            snprintf(l->line[i].label + len, FIGURE_LABEL_MAX - len, " b%" PRId64,
                     l->line[i].is_weak ? c->batch / c->devices : c->batch);
    }
}

enum status study_lines_add(struct study_lines *l, const struct analysis *a)
{
    const struct varies varies = varies_of(a);
    for (int64_t i = 0; i < a->n_series && l->n < STUDY_LINES_MAX; i++) {
        const struct analysis_series *s = &a->series[i];
        const struct analysis_cell *last = last_of(a, i);
        struct study_line *line = line_open(l, s->n);
        if (!line)
            return no_memory();
        line->is_strong = last->scaling == ANALYSIS_STRONG;
        line->is_weak = !line->is_strong;
        label_make(last, &varies, line->label);
        for (int64_t k = 0; k < s->n; k++)
            if (a->cell[s->cell[k]].images_per_s.n > 0)
                cell_add(line, &a->cell[s->cell[k]]);
    }
    labels_tell_apart(a, l);
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
    v[QUANTITY_TOP1] = only(row->top1);
    v[QUANTITY_TOP5] = only(row->top5);
    rates_complete(p, &l->point[0]);
}

enum status study_lines_add_published(struct study_lines *l, const struct published_series *s)
{
    if (l->n == STUDY_LINES_MAX)
        return STATUS_OK;
    struct study_line *line = line_open(l, s->n);
    if (!line)
        return no_memory();
    snprintf(line->label, sizeof line->label, "published: %.36s %.24s", s->name, s->hardware);
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
