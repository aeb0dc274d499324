/* Fits or calibrates the parameters of a machine, and makes forecasts. */
#include "predict/prediction.h"

static void forecast_at(const struct system *s, int64_t ranks, int64_t batch, struct forecast *out)
{
    struct straggler late;
    straggler_of(ranks, &late);
    forecast_step(s, ranks, batch, &late, out);
}

static enum status learn(const struct prediction_config *c, struct prediction *p)
{
    const struct source *source = c->source;
    const struct measured *first = &source->point[0];
    if (!c->fit)
        return forecast_calibrate(&p->system, first->ranks, first->batch, first->images_per_s);
    while (p->fitted < source->n &&
           (c->fit_up_to == 0 || source->point[p->fitted].ranks <= c->fit_up_to))
        p->fitted++;
    if (p->fitted < 2)
        return status_fail(STATUS_USAGE,
                           "%d measured point%s are too few: a fit needs at least two, "
                           "with different numbers of ranks",
                           p->fitted, p->fitted == 1 ? "" : "s");
    return fit_system(&p->system, &c->known, source->point, p->fitted);
}

enum status prediction_make(const struct prediction_config *c, struct prediction *out)
{
    const struct source *source = c->source;
    const struct measured *last = &source->point[source->n - 1];
    *out = (struct prediction){.source = source, .system = c->system, .n = c->n_ranks};
    out->system.work = source->work;
    TRY(learn(c, out));
    for (int i = 0; i < source->n; i++)
        forecast_at(&out->system, source->point[i].ranks, source->point[i].batch, &out->at[i]);
    for (int i = 0; i < c->n_ranks; i++)
        forecast_at(&out->system, c->ranks[i], c->batch ? c->batch : last->batch,
                    &out->forecast[i]);
    return STATUS_OK;
}

double prediction_efficiency(const struct prediction *p, int64_t ranks, double images_per_s)
{
    const struct measured *first = &p->source->point[0];
    return 100 * (images_per_s / (double)ranks) / (first->images_per_s / (double)first->ranks);
}

double prediction_error(const struct prediction *p, int i)
{
    const struct measured *m = &p->source->point[i];
    return prediction_efficiency(p, m->ranks, p->at[i].images_per_s - m->images_per_s);
}

bool prediction_is_held_out(const struct prediction *p, int i)
{
    return i >= (p->fitted > 0 ? p->fitted : 1);
}
