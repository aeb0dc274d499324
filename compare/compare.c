/* Verdicts. */
#include "compare/compare.h"

#include "base/file.h"
#include "compare/fingerprint.h"
#include "compare/history.h"
#include "compare/verdict.h"
#include "results/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *compare_verdict_str(enum compare_verdict v)
{
    static const char *const names[] = {
        [COMPARE_SAME] = "same",
        [COMPARE_BETTER] = "better",
        [COMPARE_WORSE] = "worse",
        [COMPARE_REGRESSION] = "REGRESSION",
        [COMPARE_UNCONFIRMED] = "not confirmed",
        [COMPARE_SMALL] = "too small to judge",
        [COMPARE_FEW] = "not enough repeats",
    };
    return names[v];
}

bool compare_passed(const struct compare_report *r)
{
    return r->verdicts[COMPARE_REGRESSION] == 0 && r->undecided == 0 && r->refused == 0 &&
           r->incomplete == 0;
}

struct compare_config compare_defaults(void)
{
    struct compare_config c = {.alpha = 0.01};
    for (int i = 0; i < METRICS; i++)
        c.threshold[i] = 0.03;
    c.role[METRIC_IMAGES_PER_S] = COMPARE_DECIDES;
    c.role[METRIC_VAL_TOP1] = COMPARE_OPTION;
    return c;
}

void compare_report_free(struct compare_report *r)
{
    for (int64_t i = 0; i < r->n_cells; i++)
        json_decref(r->cell[i].differences);
    free(r->cell);
    *r = (struct compare_report){0};
}

static enum status new_cell(struct compare_report *r, const char *name, struct compare_cell **out)
{
    if (r->n_cells == r->capacity) {
        int64_t capacity = r->capacity ? 2 * r->capacity : 8;
        struct compare_cell *more = realloc(r->cell, (size_t)capacity * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for %lld cells", (long long)capacity);
        r->cell = more;
        r->capacity = capacity;
    }
    *out = &r->cell[r->n_cells];
    **out = (struct compare_cell){.differences = json_object()};
    if (!(*out)->differences)
        return status_fail(STATUS_OOM, "no memory for a cell");
    text_clean((*out)->name, sizeof(*out)->name, name);
    r->n_cells++;
    return STATUS_OK;
}

static bool same_end(const struct repeat *a, const struct repeat *b)
{
    return *a->end.by && strcmp(a->end.by, b->end.by) == 0 && a->end.steps == b->end.steps &&
           a->end.epochs == b->end.epochs;
}

/* Whether all runs of both sides ended alike. */
static bool end_alike(const struct repeats *base, const struct repeats *new)
{
    for (int64_t i = 0; i < base->n; i++)
        if (!same_end(&base->repeat[0], &base->repeat[i]))
            return false;
    for (int64_t i = 0; i < new->n; i++)
        if (!same_end(&base->repeat[0], &new->repeat[i]))
            return false;
    return true;
}

/* Every run against the first of the base. */
static enum status list_differences(const struct repeats *base, const struct repeats *new,
                                    const struct compare_config *config, struct compare_cell *c)
{
    const struct repeats *const sides[] = {base, new};
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < sides[side]->n; i++)
            TRY(fingerprint_differ(base->repeat[0].fingerprint, sides[side]->repeat[i].fingerprint,
                                   config->allowed, config->n_allowed, c->differences));
    return STATUS_OK;
}

/* What a side lacks. */
static void list_missing(const struct repeats *r, const char *side, struct compare_cell *c)
{
    if (r->damaged > 0)
        cell_lacks(c, "%lld damaged run%s of %s left out: %s", (long long)r->damaged,
                   r->damaged > 1 ? "s" : "", side, r->damage);
    if (r->unfinished > 0)
        cell_lacks(c, "%lld of %lld runs of %s did not end in order, '%s' first",
                   (long long)r->unfinished, (long long)(r->unfinished + r->n), side, r->example);
    else if (r->n < COMPARE_LEAST_REPEATS)
        cell_lacks(c, "%lld of at least %d repeats of %s", (long long)r->n, COMPARE_LEAST_REPEATS,
                   side);
}

static enum status compare_repeats(struct repeats *base, struct repeats *new,
                                   const struct compare_config *config, struct compare_cell *c)
{
    c->n_base = base->n;
    c->n_new = new->n;
    list_missing(base, "BASE", c);
    list_missing(new, "NEW", c);
    if (base->n == 0 || new->n == 0)
        return STATUS_OK;
    c->ended_alike = end_alike(base, new);
    c->turns = config->pairing != COMPARE_PAIR_NEVER && repeats_take_turns(base, new);
    if (config->pairing == COMPARE_PAIR_ALWAYS && !c->turns)
        cell_lacks(c, "the runs of BASE and NEW did not take turns");
    TRY(list_differences(base, new, config, c));
    return json_object_size(c->differences) == 0 ? judge_measure(base, new, config, c) : STATUS_OK;
}

/* Cells that could not be judged. */
static void count(struct compare_report *r)
{
    for (int64_t i = 0; i < r->n_cells; i++) {
        r->refused += json_object_size(r->cell[i].differences) > 0;
        r->incomplete += *r->cell[i].missing != '\0';
    }
}

static void name_of(const struct repeats *r, char name[COMPARE_NAME_SIZE])
{
    fingerprint_name(r->n > 0 ? r->repeat[0].fingerprint : NULL, name, COMPARE_NAME_SIZE);
}

static enum status add_runs(char *const *dir, int n, struct repeats *r)
{
    for (int i = 0; i < n; i++) {
        int64_t before = r->n + r->unfinished + r->damaged;
        TRY(repeats_add(dir[i], r));
        if (r->n + r->unfinished + r->damaged == before)
            return status_fail(STATUS_DATA, "'%s' is no run, no folder of runs and no study",
                               dir[i]);
    }
    return STATUS_OK;
}

static enum status compare_runs(char *const *base, int n_base, char *const *new, int n_new,
                                const struct compare_config *config, struct compare_report *report)
{
    enum status st;
    char name[COMPARE_NAME_SIZE];
    struct compare_cell *cell;
    struct repeats b = {0}, n = {0};
    CHECK(add_runs(base, n_base, &b));
    CHECK(add_runs(new, n_new, &n));
    name_of(&b, name);
    CHECK(new_cell(report, name, &cell));
    CHECK(compare_repeats(&b, &n, config, cell));
done:
    repeats_free(&b);
    repeats_free(&n);
    return st;
}

/* A side's runs of a cell; none where the study lacks it. */
static enum status add_cell(const char *study, const char *cell, struct repeats *r)
{
    char path[REPEATS_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/cells/%s", study, cell));
    return path_is_dir(path) ? repeats_add(path, r) : STATUS_OK;
}

static enum status compare_cell(const char *base, const char *new, const char *name,
                                const struct compare_config *config, struct compare_report *report)
{
    enum status st;
    struct compare_cell *cell;
    struct repeats b = {0}, n = {0};
    CHECK(add_cell(base, name, &b));
    CHECK(add_cell(new, name, &n));
    CHECK(new_cell(report, name, &cell));
    CHECK(compare_repeats(&b, &n, config, cell));
done:
    repeats_free(&b);
    repeats_free(&n);
    return st;
}

/* The cells of both, by name. */
static enum status compare_studies(const char *base, const char *new,
                                   const struct compare_config *config,
                                   struct compare_report *report)
{
    enum status st;
    struct cell_names b = {0}, n = {0};
    CHECK(repeats_cells(base, &b));
    CHECK(repeats_cells(new, &n));
    for (int i = 0, k = 0; i < b.n || k < n.n;) {
        int order = i == b.n ? 1 : k == n.n ? -1 : strcmp(b.name[i], n.name[k]);
        CHECK(compare_cell(base, new, order <= 0 ? b.name[i] : n.name[k], config, report));
        i += order <= 0;
        k += order >= 0;
    }
done:
    cell_names_free(&b);
    cell_names_free(&n);
    return st;
}

static bool any_study(char *const *dir, int n)
{
    for (int i = 0; i < n; i++)
        if (repeats_is_study(dir[i]))
            return true;
    return false;
}

/* Verdicts and counts, once all cells have been measured with `st`. */
static enum status conclude(enum status st, struct compare_report *report)
{
    if (st == STATUS_OK)
        st = judge_report(report);
    if (st == STATUS_OK)
        count(report);
    else
        compare_report_free(report);
    return st;
}

static void begin(const struct compare_config *config, struct compare_report *report)
{
    *report = (struct compare_report){.alpha = config->alpha,
                                      .pairs_only = config->pairing == COMPARE_PAIR_ALWAYS};
}

enum status compare_compare(char *const *base, int n_base, char *const *new, int n_new,
                            const struct compare_config *config, struct compare_report *report)
{
    enum status st;
    begin(config, report);
    if (!any_study(base, n_base) && !any_study(new, n_new))
        st = compare_runs(base, n_base, new, n_new, config, report);
    else if (n_base == 1 && n_new == 1 && any_study(base, 1) && any_study(new, 1))
        st = compare_studies(base[0], new[0], config, report);
    else
        st = status_fail(STATUS_USAGE, "a study is held against one other study: give BASE NEW");
    return conclude(st, report);
}

/* ---- with a history ---- */

static enum status add_new(char *const *new, int n_new, struct repeats *n)
{
    if (any_study(new, n_new))
        return status_fail(STATUS_USAGE, "a study has no history: give runs, or a cell of it");
    return add_runs(new, n_new, n);
}

/* Those of the history that the new runs, which are the first of `without`, are held against. */
static enum status choose_base(const struct history *h, const struct compare_rolling *base,
                               const struct compare_config *config, const struct repeats without[2],
                               struct repeats *out)
{
    if (without[0].n == 0)
        return STATUS_OK;
    const struct history_choice c = {.fingerprint = without[0].repeat[0].fingerprint,
                                     .allowed = config->allowed,
                                     .n_allowed = config->n_allowed,
                                     .without = without,
                                     .n_without = 2,
                                     .most = base->most};
    return history_base(h, &c, out);
}

enum status compare_compare_history(const struct compare_rolling *base, char *const *new, int n_new,
                                    const struct compare_config *config,
                                    struct compare_report *report)
{
    enum status st;
    char name[COMPARE_NAME_SIZE];
    struct compare_cell *cell;
    struct history h = {0};
    struct repeats b = {0}, n[2] = {{0}, {0}}; /* the new ones, and others that are no base */
    begin(config, report);
    CHECK(add_new(new, n_new, &n[0]));
    CHECK(add_new(base->without, base->n_without, &n[1]));
    CHECK(history_load(base->dir, &h));
    CHECK(choose_base(&h, base, config, n, &b));
    name_of(&n[0], name);
    CHECK(new_cell(report, name, &cell));
    if (b.n == 0)
        cell_lacks(cell,
                   "of %lld runs in '%s' none was accepted and is of the same configuration "
                   "and hardware, the new ones aside",
                   (long long)h.n, base->dir);
    CHECK(compare_repeats(&b, &n[0], config, cell));
done:
    history_free(&h);
    repeats_free(&b);
    repeats_free(&n[0]);
    repeats_free(&n[1]);
    return conclude(st, report);
}

enum status compare_record(const char *dir, char *const *new, int n_new, bool accepted)
{
    struct repeats n = {0};
    enum status st;
    CHECK(add_new(new, n_new, &n));
    if (n.unfinished > 0)
        st = status_fail(STATUS_DATA, "'%s' did not end in order; nothing is recorded", n.example);
    else if (n.damaged > 0)
        st = status_fail(STATUS_DATA, "%s; nothing is recorded", n.damage);
    else
        st = history_append(dir, &n, accepted);
done:
    repeats_free(&n);
    return st;
}
