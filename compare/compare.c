/* Compares the base and the new version, cell by cell. */
#include "compare/compare.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "compare/fingerprint.h"
#include "compare/history.h"

#include <string.h>

/* Whether all runs of both sides have the same steps and epochs, and ended for the same reason. */
static bool end_alike(const struct repeats *base, const struct repeats *new)
{
    const struct repeats *const sides[] = {base, new};
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < sides[side]->n; i++) {
            const struct repeat *a = &base->repeat[0], *b = &sides[side]->repeat[i];
            if (!*a->end.by || strcmp(a->end.by, b->end.by) != 0 || a->end.steps != b->end.steps ||
                a->end.epochs != b->end.epochs)
                return false;
        }
    return true;
}

/* Lists the damaged, incomplete and missing runs of a side. */
static void list_missing(const struct repeats *r, const char *side, struct compare_cell *c)
{
    if (r->damaged > 0)
        text_join(c->missing, sizeof c->missing, "; ", "%lld damaged run%s of %s left out: %s",
                  (long long)r->damaged, r->damaged > 1 ? "s" : "", side, r->damage);
    if (r->unfinished > 0)
        text_join(c->missing, sizeof c->missing, "; ",
                  "%lld of %lld runs of %s %s incomplete, for example '%s'",
                  (long long)r->unfinished, (long long)(r->unfinished + r->n), side,
                  r->unfinished == 1 ? "is" : "are", r->example);
    else if (r->n < COMPARE_LEAST_REPEATS)
        text_join(c->missing, sizeof c->missing, "; ",
                  "%lld repeat%s of %s; at least %d are needed", (long long)r->n,
                  r->n == 1 ? "" : "s", side, COMPARE_LEAST_REPEATS);
}

/* Fails if a run occurs twice: a comparison of a run with itself always passes, and a run that
 * counts twice makes its side look more certain than it is. */
static enum status check_distinct(const struct repeats *base, const struct repeats *new)
{
    for (int64_t i = 0; i < base->n + new->n; i++)
        for (int64_t k = i + 1; k < base->n + new->n; k++) {
            const struct repeat *a = i < base->n ? &base->repeat[i] : &new->repeat[i - base->n];
            const struct repeat *b = k < base->n ? &base->repeat[k] : &new->repeat[k - base->n];
            if (repeat_same(a, b))
                return status_fail(STATUS_USAGE,
                                   "'%s' of %s and '%s' of %s are the same run; give each run once",
                                   a->dir ? a->dir : "a run", i < base->n ? "BASE" : "NEW",
                                   b->dir ? b->dir : "a run", k < base->n ? "BASE" : "NEW");
        }
    return STATUS_OK;
}

/* Compares the fingerprint of every run of a side with that of the run `first`. */
static void find_differences(const struct repeat *first, const struct repeats *side,
                             const struct compare_config *config, struct compare_cell *c)
{
    for (int64_t i = 0; i < side->n; i++)
        fingerprint_differ(first->fingerprint, side->repeat[i].fingerprint, config->allowed,
                           config->n_allowed, c->differences);
}

/* Adds a word to a list "a, b", unless the list has it. */
static void add_distinct(char *list, size_t size, const char *word)
{
    char all[2 * COMPARE_NAME_SIZE], one[COMPARE_NAME_SIZE];
    snprintf(all, sizeof all, ", %s,", list);
    snprintf(one, sizeof one, ", %s,", word);
    if (*word && !strstr(all, one))
        text_join(list, size, ", ", "%s", word);
}

static void add_side(const struct repeats *r, struct compare_side *s)
{
    s->runs += r->n;
    for (int64_t i = 0; i < r->n; i++) {
        char commit[16];
        text_clean(commit, 13, r->repeat[i].commit);
        add_distinct(s->commits, sizeof s->commits, commit);
        add_distinct(s->hosts, sizeof s->hosts, r->repeat[i].host);
        s->disturbed += r->repeat[i].disturbed;
    }
}

/* Adds a cell with the numbers of runs of both sides. If `name` is NULL, the configuration of the
 * runs names the cell. */
static enum status new_cell(struct compare_report *r, const char *name, const struct repeats *base,
                            const struct repeats *new, struct compare_cell **out)
{
    TRY(check_distinct(base, new));
    TRY(array_reserve(&r->cell, r->n_cells));
    struct compare_cell *c = *out = &r->cell[r->n_cells];
    c->differences = json_object();
    const struct repeats *named = base->n > 0 ? base : new;
    if (name)
        text_clean(c->name, sizeof c->name, name);
    else
        fingerprint_name(named->n > 0 ? named->repeat[0].fingerprint : NULL, c->name,
                         sizeof c->name);
    for (int side = 0; side < 2; side++) {
        add_side(side ? new : base, &c->side[side]);
        add_side(side ? new : base, &r->side[side]);
    }
    r->n_cells++;
    return STATUS_OK;
}

static enum status compare_repeats(struct repeats *base, struct repeats *new,
                                   const struct compare_config *config, struct compare_cell *c)
{
    list_missing(base, "BASE", c);
    list_missing(new, "NEW", c);
    if (base->n == 0 || new->n == 0)
        return STATUS_OK;
    c->ended_alike = end_alike(base, new);
    c->turns = config->pairing != COMPARE_PAIR_NEVER && repeats_take_turns(base, new);
    if (config->pairing == COMPARE_PAIR_ALWAYS && !c->turns)
        text_join(c->missing, sizeof c->missing, "; ",
                  "--pair always: the runs of BASE and NEW did not take turns");
    find_differences(&base->repeat[0], base, config, c);
    find_differences(&base->repeat[0], new, config, c);
    return json_object_size(c->differences) == 0 ? judge_measure(base, new, config, c) : STATUS_OK;
}

static enum status add_runs(char *const *dir, int n, struct repeats *r)
{
    for (int i = 0; i < n; i++) {
        int64_t before = r->n + r->unfinished + r->damaged;
        TRY(repeats_add(dir[i], r));
        if (r->n + r->unfinished + r->damaged == before)
            return status_fail(STATUS_DATA,
                               "'%s' is neither a run, nor a folder of runs, nor a study", dir[i]);
    }
    return STATUS_OK;
}

/* Adds the runs of one cell of a study. Adds no run if the study lacks the cell. */
static enum status add_cell(const char *study, const char *cell, struct repeats *r)
{
    char path[REPEATS_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/cells/%s", study, cell));
    bool is_dir;
    TRY(path_look_dir(path, &is_dir));
    return is_dir ? repeats_add(path, r) : STATUS_OK;
}

/* Compares the runs of both sides. If `name` is not NULL, each side is a study, and the cells with
 * this name are compared. */
static enum status compare_cell(char *const *base, int n_base, char *const *new, int n_new,
                                const char *name, const struct compare_config *config,
                                struct compare_report *report)
{
    enum status st;
    struct compare_cell *cell;
    struct repeats b = {0}, n = {0};
    CHECK(name ? add_cell(base[0], name, &b) : add_runs(base, n_base, &b));
    CHECK(name ? add_cell(new[0], name, &n) : add_runs(new, n_new, &n));
    CHECK(new_cell(report, name, &b, &n, &cell));
    CHECK(compare_repeats(&b, &n, config, cell));
done:
    repeats_free(&b);
    repeats_free(&n);
    return st;
}

/* Compares the cells of both studies, matched by name. */
static enum status compare_studies(char *const *base, char *const *new,
                                   const struct compare_config *config,
                                   struct compare_report *report)
{
    enum status st;
    struct words b = {0}, n = {0};
    CHECK(repeats_cells(base[0], &b));
    CHECK(repeats_cells(new[0], &n));
    for (int i = 0, k = 0; i < b.n || k < n.n;) {
        int order = i == b.n ? 1 : k == n.n ? -1 : strcmp(b.v[i], n.v[k]);
        CHECK(compare_cell(base, 1, new, 1, order <= 0 ? b.v[i] : n.v[k], config, report));
        i += order <= 0;
        k += order >= 0;
    }
done:
    words_free(&b);
    words_free(&n);
    return st;
}

/* Sets *found to whether one of the folders is that of a study, which has cells. */
static enum status find_study(char *const *dir, int n, bool *found)
{
    char path[REPEATS_PATH_SIZE];
    *found = false;
    for (int i = 0; i < n && !*found; i++) {
        TRY(path_format(path, sizeof path, "%s/cells", dir[i]));
        TRY(path_look_dir(path, found));
    }
    return STATUS_OK;
}

/* Sets the verdicts and counts them. `st` is the status of measuring the cells. After a failure,
 * frees the report and returns the failure. */
static enum status conclude(enum status st, struct compare_report *report)
{
    st = st == STATUS_OK ? judge_report(report) : st;
    if (st != STATUS_OK)
        compare_report_free(report);
    return st;
}

static void begin(const struct compare_config *config, struct compare_report *report)
{
    *report = (struct compare_report){.alpha = config->alpha, .pairing = config->pairing};
}

static enum status compare_all(char *const *base, int n_base, char *const *new, int n_new,
                               const struct compare_config *config, struct compare_report *report)
{
    bool base_study, new_study, exists;
    TRY(find_study(base, n_base, &base_study));
    TRY(find_study(new, n_new, &new_study));
    if (!base_study && !new_study)
        return compare_cell(base, n_base, new, n_new, NULL, config, report);
    if (n_base != 1 || n_new != 1)
        return status_fail(STATUS_USAGE,
                           "a study can only be compared with one other study: give BASE NEW");
    if (base_study && new_study)
        return compare_studies(base, new, config, report);
    const char *other = base_study ? new[0] : base[0];
    TRY(path_look(other, &exists));
    return exists ? status_fail(STATUS_USAGE,
                                "'%s' is no study, and a study can only be compared "
                                "with one other study: give BASE NEW",
                                other)
                  : status_fail(STATUS_DATA, "cannot open '%s': there is no such folder", other);
}

enum status compare_compare(char *const *base, int n_base, char *const *new, int n_new,
                            const struct compare_config *config, struct compare_report *report)
{
    begin(config, report);
    return conclude(compare_all(base, n_base, new, n_new, config, report), report);
}

/* ---- with a history ---- */

static enum status add_new(char *const *new, int n_new, struct repeats *n)
{
    bool study;
    TRY(find_study(new, n_new, &study));
    if (study)
        return status_fail(STATUS_USAGE,
                           "a study has no history: give runs, or the folder of one of its cells");
    return add_runs(new, n_new, n);
}

static bool is_among(const struct repeat *r, const struct repeats *runs)
{
    for (int64_t i = 0; i < runs->n; i++)
        if (repeat_same(&runs->repeat[i], r))
            return true;
    return false;
}

/* Says why the history has only n runs with which the new runs can be compared, and names up to
 * three fields in which the accepted run differs that differs least (NULL: there is none). */
static void explain_lack(const struct history *h, const char *dir, int64_t n, json_t *nearest,
                         char out[COMPARE_TEXT_SIZE])
{
    enum { SHOWN = 3 };
    const char *field;
    json_t *d;
    size_t shown = 0;
    snprintf(out, COMPARE_TEXT_SIZE,
             "apart from the new runs, %lld of %lld runs in '%s' %s accepted and of the same "
             "configuration and hardware; %d are needed",
             (long long)n, (long long)h->n, dir, n == 1 ? "is" : "are", COMPARE_LEAST_REPEATS);
    json_object_foreach(nearest, field, d)
    {
        if (shown++ < SHOWN)
            text_append(out, COMPARE_TEXT_SIZE, "%s %s '%s' there, '%s' now",
                        shown == 1 ? "; the nearest has" : ",", field, json_text_at(d, "base"),
                        json_text_at(d, "new"));
    }
    if (shown > SHOWN)
        text_append(out, COMPARE_TEXT_SIZE, " and %zu more", shown - SHOWN);
}

/* Copies the runs of the base from the history, the newest first. If there are too few, writes the
 * reason to `lacking`. */
static enum status choose_base(const struct history *h, const struct compare_rolling *base,
                               const struct compare_config *config, const struct repeats *new,
                               struct repeats *out, char lacking[COMPARE_TEXT_SIZE])
{
    json_t *nearest = NULL;
    enum status st = STATUS_OK;
    for (int64_t i = h->n - 1; i >= 0 && out->n < base->most && st == STATUS_OK; i--) {
        const struct repeat *r = &h->entry[i].repeat;
        if (!h->entry[i].accepted || is_among(r, new))
            continue;
        json_t *d = json_object();
        fingerprint_differ(r->fingerprint, new->repeat[0].fingerprint, config->allowed,
                           config->n_allowed, d);
        size_t fields = json_object_size(d);
        bool nearer = fields > 0 && (!nearest || fields < json_object_size(nearest));
        if (fields == 0)
            st = repeats_copy(r, out);
        json_decref(nearer ? nearest : d);
        nearest = nearer ? d : nearest;
    }
    if (out->n < COMPARE_LEAST_REPEATS)
        explain_lack(h, base->dir, out->n, out->n == 0 ? nearest : NULL, lacking);
    json_decref(nearest);
    return st;
}

enum status compare_compare_history(const struct compare_rolling *base, char *const *new, int n_new,
                                    const struct compare_config *config,
                                    struct compare_report *report)
{
    enum status st;
    struct compare_cell *cell;
    struct history h = {0};
    struct repeats b = {0}, n = {0};
    begin(config, report);
    CHECK(add_new(new, n_new, &n));
    CHECK(history_load(base->dir, base->begins, &h));
    if (n.n > 0)
        CHECK(choose_base(&h, base, config, &n, &b, report->lacking));
    CHECK(new_cell(report, NULL, &b, &n, &cell));
    if (*report->lacking && base->begins && n.unfinished + n.damaged == 0) {
        find_differences(&n.repeat[0], &n, config, cell);
        report->begins = json_object_size(cell->differences) == 0;
        goto done;
    }
    if (*report->lacking)
        text_join(cell->missing, sizeof cell->missing, "; ", "%s", report->lacking);
    CHECK(compare_repeats(&b, &n, config, cell));
done:
    history_free(&h);
    repeats_free(&b);
    repeats_free(&n);
    return conclude(st, report);
}

enum status compare_record(const char *dir, char *const *new, int n_new, bool accepted)
{
    struct repeats n = {0};
    enum status st;
    CHECK(add_new(new, n_new, &n));
    CHECK(check_distinct(&(struct repeats){0}, &n));
    if (n.unfinished > 0)
        st = status_fail(STATUS_DATA, "'%s' is incomplete; nothing is recorded", n.example);
    else if (n.damaged > 0)
        st = status_fail(STATUS_DATA, "%s; nothing is recorded", n.damage);
    else
        st = history_append(dir, &n, accepted);
done:
    repeats_free(&n);
    return st;
}
