/* Prints the rows of bench throughput and the fastest combination, as a table or as a record, and
 * takes the results of earlier calls from a record. */
#include "bench/throughput.h"

#include "base/json.h"
#include "base/text.h"
#include "bench/record.h"
#include "results/environment.h"

#include <math.h>
#include <string.h>

static const char *const who_name[THROUGHPUT_WHO_COUNT] = {"ampscale", "ampscale, from files",
                                                           "PyTorch eager", "PyTorch compile"};

/* Returns the combination that was requested for a row, or NULL if none was requested. */
static const struct throughput_combination *named_of(const struct throughput *t,
                                                     const struct throughput_row *row)
{
    const struct throughput_config *c = t->config;
    return c->n_combinations && throughput_is_ours(row) ? &c->combination[row->slot.combination]
                                                        : NULL;
}

static void say_combination(const struct throughput_combination *c, char *out, size_t size)
{
    snprintf(out, size, "fuse %s, graphs %s", fuse_str(c->fuse), c->graphs ? "on" : "off");
}

void throughput_row_name(const struct throughput *t, const struct throughput_row *row, char *out,
                         size_t size)
{
    const struct throughput_key *key = &t->config->key[row->slot.key];
    const struct throughput_combination *named = named_of(t, row);
    char how[48] = "";
    if (named)
        say_combination(named, how, sizeof how);
    snprintf(out, size, "%s:%d %s%s%s", key->precision, key->batch, who_name[row->slot.who],
             named ? ", " : "", how);
}

/* Returns the reason why a row has no result. */
static const char *why_of(const struct throughput_row *row)
{
    return *row->why ? row->why : "its turn did not begin in time";
}

/* Returns the name of the rung (fallback level) of an ampscale row. NULL if the row is not
 * ampscale's or has no results, or if train_work_rung returns NULL. */
static const char *rung_of(const struct throughput *t, const struct throughput_row *row)
{
    return throughput_is_ours(row) && row->n > 0 ? train_work_rung(&t->work, &row->ladder) : NULL;
}

/* --- the fastest combination --- */

struct fastest {
    const struct throughput_row *row, *base; /* NULL if there is nothing to compare */
    double ratio;                            /* rate of `row` divided by the rate of `base` */
    double noise;                            /* the larger of the two rows' spreads, as a fraction;
                                              * NAN: unknown after a single round */
};

static double spread_of(const struct stats *s)
{
    return s->n > 1 ? (s->max - s->min) / s->median : NAN;
}

static void find_fastest(const struct throughput *t, int key, struct fastest *f)
{
    *f = (struct fastest){0};
    for (int i = 0; i < t->plan.n_slots; i++) {
        const struct throughput_row *row = &t->row[i];
        if (row->slot.key != key || row->slot.who != THROUGHPUT_OURS || row->n == 0)
            continue;
        if (!f->row || row->stats.median > f->row->stats.median)
            f->row = row;
        /* The base is the row with fusion `auto` and with graphs. If no such row has a result, the
         * base is the first row that has a result. */
        const struct throughput_combination *named = named_of(t, row);
        if (!f->base || (named && named->fuse == FUSE_AUTO && named->graphs))
            f->base = row;
    }
    if (!f->row)
        return;
    double best = spread_of(&f->row->stats), base = spread_of(&f->base->stats);
    f->ratio = f->row->stats.median / f->base->stats.median;
    f->noise = isnan(best) || isnan(base) ? NAN : fmax(best, base);
}

static json_t *fastest_json(const struct throughput *t)
{
    json_t *list = json_array();
    for (int k = 0; k < t->config->n_keys; k++) {
        struct fastest f;
        find_fastest(t, k, &f);
        if (!f.row)
            continue;
        const struct throughput_combination *c = named_of(t, f.row);
        const struct throughput_combination *base = named_of(t, f.base);
        json_t *within = isnan(f.noise) ? json_null() : json_boolean(f.ratio - 1 <= f.noise);
        json_add(list, json_new("{s:s, s:i, s:s, s:b, s:{s:s, s:b}, s:f, s:f, s:o}", "precision",
                                t->config->key[k].precision, "batch", t->config->key[k].batch,
                                "fuse", fuse_str(c->fuse), "graphs", c->graphs, "base", "fuse",
                                fuse_str(base->fuse), "graphs", base->graphs, "ratio", f.ratio,
                                "noise", f.noise, "within_noise", within));
    }
    return list;
}

static void print_fastest(const struct throughput *t, int key)
{
    FILE *out = t->config->options.out;
    struct fastest f;
    char best[48], base[48];
    find_fastest(t, key, &f);
    if (t->config->n_combinations < 2 || !f.row)
        return;
    say_combination(named_of(t, f.row), best, sizeof best);
    say_combination(named_of(t, f.base), base, sizeof base);
    fprintf(out, "%s:%d fastest: %s", t->config->key[key].precision, t->config->key[key].batch,
            best);
    if (f.row == f.base)
        fprintf(out, ", the base\n");
    else if (isnan(f.noise))
        fprintf(out, ", %.3f times %s; the noise of a single round is not known\n", f.ratio, base);
    else
        fprintf(out, ", %.3f times %s; rounds differ by %.1f %%: %s\n", f.ratio, base,
                f.noise * 100,
                f.ratio - 1 <= f.noise ? "the difference is within the noise"
                                       : "the difference is more than the noise");
}

/* --- columns --- */

static void throughput_how_columns(struct bench_table *t, const struct throughput_row *row)
{
    const struct throughput_combination *named = named_of(t->context, row);
    const char *rung = rung_of(t->context, row);
    if (row->ladder.reported && row->n > 0) {
        column_text(t, "fuse", NULL, 0, row->ladder.fuse);
        column_bool(t, "graphs", row->ladder.graphs);
    } else if (named) {
        column_text(t, "fuse", NULL, 0, fuse_str(named->fuse));
        column_bool(t, "graphs", named->graphs);
    }
    if (rung)
        column_text(t, "rung", NULL, 0, rung);
    if (throughput_is_ours(row))
        column_json(t, "falls", train_falls_json(&row->ladder));
    if (row->ladder.fusions)
        column_json(t, "fusions", json_incref(row->ladder.fusions));
}

static json_t *rate_json(const void *rate, int64_t i)
{
    return json_finite(((const double *)rate)[i]);
}

static void throughput_columns(struct bench_table *t, const void *row)
{
    const struct throughput_row *r = row;
    const struct throughput *all = t->context;
    const struct throughput_key *key = &all->config->key[r->slot.key];
    const char *rung = rung_of(all, r);
    char name[128];
    throughput_row_name(all, r, name, sizeof name);
    column_text(t, "name", "row", -48, name);
    column_text(t, "precision", NULL, 0, key->precision);
    column_int(t, "batch", NULL, 0, key->batch);
    column_text(t, "who", NULL, 0, who_name[r->slot.who]);
    throughput_how_columns(t, r);
    if (r->n > 0)
        column_group_begin(t, "images_per_s");
    t->absent = r->n == 0;
    column_real(t, "median", "images/s", 10, 1, 1, r->stats.median);
    column_real(t, "min", "min", 10, 1, 1, r->stats.min);
    column_real(t, "max", "max", 10, 1, 1, r->stats.max);
    column_group_end(t);
    t->absent = false;
    column_int(t, "rounds", "rounds", 6, r->n);
    column_json(t, "rates", json_list(r->n, rate_json, r->rate));
    column_text(t, NULL, "rung", 0, r->n == 0 ? why_of(r) : rung ? rung : "");
    if (r->n == 0 || *r->why)
        column_text(t, "why", NULL, 0, why_of(r));
    column_noise(t, throughput_is_ours(r) && r->n > 0 ? &r->noise : NULL, NAN);
}

/* --- the record --- */

json_t *throughput_json(const struct throughput *t)
{
    const struct throughput_config *c = t->config;
    const struct bench_head head = {"throughput", THROUGHPUT_SCHEMA, train_work_device(&t->work),
                                    c->options.threads};
    struct bench_table table = {.format = BENCH_JSON, .columns = throughput_columns, .context = t};
    bench_table_rows(&table, t->row, t->plan.n_slots, sizeof *t->row);
    json_t *more = json_new("{s:s, s:i, s:i, s:i, s:s, s:o, s:{s:i, s:i}}", "net", c->options.net,
                            "image_size", c->options.image_size, "steps", c->steps, "plans",
                            c->plans, "unit", "images/s", "rows", bench_table_take(&table), "turns",
                            "planned", t->plan.n_turns, "taken", t->taken);
    if (c->peer)
        json_put(more, "peer", *t->peer.about ? json_utf8(t->peer.about) : json_null());
    if (*t->peer.why)
        json_put(more, "peer_ended", json_utf8(t->peer.why));
    if (c->n_combinations > 1)
        json_put(more, "fastest", fastest_json(t));
    return bench_record(&head, more);
}

/* --- the table --- */

/* Prints the ratio of the fastest row of ampscale to the fastest row of the peer, the name of that
 * row, and why a row of the peer is missing in the comparison. */
static void print_ratio(const struct throughput *t, int key)
{
    double ours = 0, theirs = 0;
    FILE *out = t->config->options.out;
    const char *fastest = "";
    const struct throughput_row *missing = NULL;
    for (int i = 0; i < t->plan.n_slots; i++) {
        const struct throughput_row *row = &t->row[i];
        if (row->slot.key != key || row->slot.who == THROUGHPUT_FILES)
            continue;
        if (row->n > 0 && throughput_is_ours(row))
            ours = fmax(ours, row->stats.median);
        else if (row->n > 0 && row->stats.median > theirs) {
            theirs = row->stats.median;
            fastest = who_name[row->slot.who];
        } else if (row->n == 0 && !throughput_is_ours(row))
            missing = row;
    }
    if (ours == 0 || theirs == 0)
        return;
    fprintf(out, "%s:%d: %.3f times %s", t->config->key[key].precision, t->config->key[key].batch,
            ours / theirs, fastest);
    if (missing)
        fprintf(out, " only; %s: %s", who_name[missing->slot.who], why_of(missing));
    fprintf(out, "\n");
}

void throughput_print(const struct throughput *t)
{
    const struct throughput_config *c = t->config;
    FILE *out = c->options.out;
    fprintf(out, "%s\n%s, %d px, %d steps a turn\n", train_work_device(&t->work), c->options.net,
            c->options.image_size, c->steps);
    if (*t->peer.about)
        fprintf(out, "peer: %s\n", t->peer.about);
    if (*t->peer.why)
        fprintf(out, "the peer ended: %s\n", t->peer.why);
    struct bench_table table = {.out = out, .columns = throughput_columns, .context = t};
    bench_table_open(&table, t->row);
    for (int i = 0; i < t->plan.n_slots; i++) {
        const struct throughput_row *row = &t->row[i];
        bench_table_row(&table, row);
        if (throughput_is_ours(row))
            train_falls_print(&row->ladder, row->why, out);
        if (row->n > 0 && *row->why)
            fprintf(out, "    not in every round: %s\n", row->why);
    }
    for (int k = 0; k < c->n_keys; k++) {
        print_fastest(t, k);
        print_ratio(t, k);
    }
    fprintf(out, "%d of %d turns\n", t->taken, t->plan.n_turns);
    bench_warn(&(struct bench_head){.threads = c->options.threads}, &table);
}

/* --- the record of an earlier call, which may have any contents --- */

enum { RECORD_MAX_BYTES = 16 << 20 };

static struct throughput_row *find_row(struct throughput *t, const char *name)
{
    char own[128];
    for (int i = 0; i < t->plan.n_slots; i++) {
        throughput_row_name(t, &t->row[i], own, sizeof own);
        if (strcmp(own, name) == 0)
            return &t->row[i];
    }
    return NULL;
}

/* Takes the row's results, at most one for each round. A row without a result begins anew. */
static enum status take_row(struct throughput *t, const json_t *from)
{
    struct throughput_row *row = find_row(t, json_text_at(from, "name"));
    const json_t *rate = json_object_get(from, "rates");
    size_t n = json_array_size(rate);
    if (!row || row->n > 0 || n == 0)
        return STATUS_OK;
    for (size_t i = 0; i < n && row->n < t->config->options.rounds; i++) {
        double v = json_number_value(json_array_get(rate, i));
        if (!(v > 0) || !isfinite(v))
            return status_fail(STATUS_DATA, "row '%s' has a rate that is no number above 0",
                               json_text_at(from, "name"));
        row->rate[row->n++] = v;
    }
    t->taken += row->n;
    row->noise = host_noise_read(from);
    train_ladder_resume(&row->ladder, from);
    return stats_of(row->rate, row->n, &row->stats);
}

static bool is_same(const json_t *record, const char *key, int value)
{
    return json_number_at(record, key) == value;
}

static enum status take_record(struct throughput *t, const json_t *record)
{
    const struct throughput_config *c = t->config;
    const json_t *row;
    size_t i;
    if (strcmp(json_text_at(record, "bench"), "throughput") != 0 ||
        !is_same(record, "schema", THROUGHPUT_SCHEMA))
        return status_fail(STATUS_DATA, "it is no record of bench throughput");
    if (strcmp(json_text_at(record, "net"), c->options.net) != 0 ||
        !is_same(record, "image_size", c->options.image_size) ||
        !is_same(record, "steps", c->steps) || !is_same(record, "plans", c->plans) ||
        !is_same(record, "threads", c->options.threads))
        return status_fail(STATUS_USAGE, "it is of other settings; give another --out");
    if (environment_joins_own(record, true, true) != STATUS_OK)
        return status_fail(STATUS_USAGE,
                           "it is of another version, build or machine; give another --out");
    json_array_foreach(json_object_get(record, "rows"), i, row) TRY(take_row(t, row));
    for (int k = 0; k < t->plan.n_slots; k++)
        t->work.budget.measured = t->work.budget.measured || t->row[k].n > 0;
    if (t->work.budget.measured)
        text_clean(t->work.device, sizeof t->work.device, json_text_at(record, "device"));
    text_clean(t->peer.about, sizeof t->peer.about, json_text_at(record, "peer"));
    return STATUS_OK;
}

enum status throughput_resume(struct throughput *t)
{
    char path[TRAIN_PATH_SIZE];
    json_t *record;
    bool exists;
    TRY(path_format(path, sizeof path, "%s/throughput.json", t->work.dir));
    TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    TRY(json_read(path, RECORD_MAX_BYTES, &record));
    enum status st = take_record(t, record);
    json_decref(record);
    return status_context(st, "'%s'", path);
}
