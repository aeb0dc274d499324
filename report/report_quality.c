/* Judges how far measurements can be trusted, and says so in a line. */
#include "report/report_quality.h"

#include "base/json.h"
#include "base/text.h"
#include "results/noise.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct quality quality_of_study(const struct analysis *a)
{
    struct quality q = {.conditions = a->conditions,
                        .machine = a->machine,
                        .unit = "cells",
                        .units = a->n_cells,
                        .widest = NAN,
                        .apart = NAN};
    double limit = json_number_value(json_object_get(a->thresholds, "noise"));
    for (int64_t i = 0; i < a->n_cells; i++) {
        const struct analysis_cell *c = &a->cell[i];
        const struct analysis_measure *m = &c->images_per_s;
        double spread = (m->high - m->low) / m->median;
        q.runs += m->n;
        q.missing += *c->missing != '\0';
        q.single += m->n == 1;
        q.doubtful += *c->missing || (limit > 0 && spread >= limit) || analysis_disturbed(c);
        q.widest = fmax(q.widest, spread);
    }
    return q;
}

struct quality quality_of_runs(struct run *const *runs, int n)
{
    static const char *const keys[] = {"world_size", "devices_per_rank", "batch_size", "mode",
                                       "devices",    "threads",          "precision",  "lr",
                                       NULL};
    struct quality q = {
        .conditions = conditions_none, .unit = "runs", .units = n, .widest = NAN, .apart = NAN};
    for (int i = 0; i < n; i++) {
        const struct conditions c = conditions_of(runs[i]);
        conditions_add(&q.conditions, &c);
        q.machine = q.machine ? q.machine : runs[i]->info;
        q.missing += !runs[i]->summary;
        q.changed += run_changed(runs[i], keys) != NULL;
        bool paused = json_is_true(json_object_get(runs[i]->summary, "paused"));
        q.paused += paused;
        q.doubtful += !runs[i]->summary || c.disturbed > 0 || paused;
        q.runs += runs[i]->summary != NULL;
    }
    return q;
}

bool quality_is_poor(const struct quality *q)
{
    const struct conditions *c = &q->conditions;
    return q->runs == 0 || 4 * q->doubtful >= q->units ||
           (c->runs > 0 && 4 * c->disturbed >= c->runs);
}

static const char *mark_of(const struct quality *q)
{
    const struct conditions *c = &q->conditions;
    if (quality_is_poor(q))
        return "poor";
    bool good = q->doubtful == 0 && q->single == 0 && c->disturbed == 0 && c->runs > 0 &&
                c->recorded == c->runs && !(q->apart >= QUALITY_APART);
    return good ? "good" : "fair";
}

/* Writes "2026-11-21 11:02 to 11:15 UTC", with the second date if it differs. */
static void say_period(char *text, size_t size, const struct conditions *c)
{
    enum { DATE = 10, MINUTE = 5, TIME = DATE + 1 };
    const char *to = *c->to ? c->to : c->from;
    if (!*c->from) {
        text_append(text, size, "Date not recorded");
        return;
    }
    bool same = strncmp(c->from, to, TIME + MINUTE) == 0;
    bool day = strncmp(c->from, to, DATE) == 0;
    text_append(text, size, "%.*s %.*s", DATE, c->from, MINUTE, c->from + TIME);
    if (!same && day)
        text_append(text, size, " to %.*s", MINUTE, to + TIME);
    else if (!same)
        text_append(text, size, " to %.*s %.*s", DATE, to, MINUTE, to + TIME);
    text_append(text, size, " UTC");
}

static void say_host(char *text, size_t size, const json_t *machine)
{
    const json_t *host = json_object_get(machine, "host"), *cpu = json_object_get(host, "cpu");
    const char *name = json_text_at(host, "hostname"), *model = json_text_at(cpu, "model");
    double cores = json_number_at(cpu, "cores");
    text_append(text, size, ", host %.64s", *name ? name : "not recorded");
    if (*model && cores > 0)
        text_append(text, size, " (%.120s, %.0f core%s)", model, cores, cores == 1 ? "" : "s");
    text_append(text, size, ". ");
}

static void say_disturbances(char *text, size_t size, const struct quality *q)
{
    const struct conditions *c = &q->conditions;
    text_append(text, size, "%" PRId64 " run%s: ", q->runs, q->runs == 1 ? "" : "s");
    if (c->recorded == 0) {
        text_append(text, size, "disturbances by other work are not recorded");
        return;
    }
    text_append(text, size, "%" PRId64 " disturbed by other work", c->disturbed);
    if (c->recorded < c->runs)
        text_append(text, size, ", %" PRId64 " without a record of it", c->runs - c->recorded);
    if (c->others > NOISE_OTHERS)
        text_append(text, size, "; other processes took up to %.0f %% of the processors' time",
                    100 * c->others);
}

void section_quality(struct writer *w, const struct quality *q)
{
    char text[1024] = "";
    say_period(text, sizeof text, &q->conditions);
    say_host(text, sizeof text, q->machine);
    say_disturbances(text, sizeof text, q);
    if (isfinite(q->widest))
        text_append(text, sizeof text, ". Widest interval of images/s: %.0f %% of the median",
                    100 * q->widest);
    if (isfinite(q->apart))
        text_append(text, sizeof text,
                    ". Images/s of runs that differ only in the seed: up to %.0f %% of the median "
                    "apart%s",
                    100 * q->apart,
                    q->apart >= QUALITY_APART ? ", so do not compare the times of these runs" : "");
    if (q->single > 0)
        text_append(text, sizeof text, ". %" PRId64 " of %" PRId64 " %s ran only once: no interval",
                    q->single, q->units, q->unit);
    if (q->paused > 0)
        text_append(text, sizeof text,
                    ". %" PRId64 " paused: not valid are their mean and wall-clock figures",
                    q->paused);
    if (q->changed > 0)
        text_append(text, sizeof text,
                    ". %" PRId64 " of them resumed with other settings than those shown, which are "
                    "of the first attempt",
                    q->changed);
    if (q->missing > 0)
        text_append(text, sizeof text, ". %" PRId64 " of %" PRId64 " %s are %s", q->missing,
                    q->units, q->unit, *q->unit == 'c' ? "missing" : "not complete");
    writer_marked(w, "Quality of the data", mark_of(q), "%s.", text);
}
