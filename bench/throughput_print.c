/* Rows of bench throughput as a table and as a record, and what they say of the combinations. */
#include "bench/throughput.h"

#include "base/stats.h"
#include "bench/micro.h"

#include <math.h>
#include <string.h>

static const char *const who_name[THROUGHPUT_WHO_COUNT] = {"ampscale", "ampscale, from files",
                                                           "PyTorch eager", "PyTorch compile"};

static bool is_ours(const struct throughput_row *row)
{
    return row->slot.who == THROUGHPUT_OURS || row->slot.who == THROUGHPUT_FILES;
}

/* The combination that was asked for; NULL: none was named. */
static const struct throughput_combination *named_of(const struct throughput *t,
                                                     const struct throughput_row *row)
{
    const struct throughput_config *c = t->config;
    return c->n_combinations && is_ours(row) ? &c->combination[row->slot.combination] : NULL;
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

/* Why a row has no number. */
static const char *why_of(const struct throughput_row *row)
{
    return *row->why ? row->why : "its turn did not begin in time";
}

/* Where a row that has numbers ran; NULL: it has no choice of rungs. */
static const char *rung_of(const struct throughput *t, const struct throughput_row *row)
{
    bool gpu = strncmp(t->config->devices, "cuda", 4) == 0;
    return gpu && is_ours(row) && !row->ladder.fixed && row->n > 0
               ? train_rung_str(row->ladder.rung)
               : NULL;
}

static enum status row_stats(const struct throughput_row *row, struct stats *s)
{
    *s = (struct stats){0};
    return row->n > 0 ? stats_of(row->rate, row->n, s) : STATUS_OK;
}

/* --- the fastest combination --- */

struct fastest {
    const struct throughput_row *row, *base; /* NULL: there is nothing to compare */
    double ratio;                            /* of its rate to that of the base */
    double noise;                            /* the larger spread of the two, as a share; NAN: of
                                              * one round it is not known */
};

/* Compares with `auto` and graphs on where that was asked for, else with the first. */
static bool is_base(const struct throughput *t, const struct throughput_row *row)
{
    const struct throughput_combination *named = named_of(t, row);
    return named && named->fuse == FUSE_AUTO && named->graphs;
}

static double spread_of(const struct stats *s)
{
    return s->n > 1 ? (s->max - s->min) / s->median : NAN;
}

static enum status find_fastest(const struct throughput *t, int key, struct fastest *f)
{
    struct stats best = {0}, base = {0}, s;
    *f = (struct fastest){0};
    for (int i = 0; i < t->plan.n_slots; i++) {
        const struct throughput_row *row = &t->row[i];
        if (row->slot.key != key || row->slot.who != THROUGHPUT_OURS || row->n == 0)
            continue;
        TRY(row_stats(row, &s));
        if (!f->row || s.median > best.median) {
            f->row = row;
            best = s;
        }
        if (!f->base || is_base(t, row)) {
            f->base = row;
            base = s;
        }
    }
    if (!f->row)
        return STATUS_OK;
    f->ratio = best.median / base.median;
    f->noise = fmax(spread_of(&best), spread_of(&base));
    if (isnan(spread_of(&best)) || isnan(spread_of(&base)))
        f->noise = NAN;
    return STATUS_OK;
}

static enum status fastest_json(const struct throughput *t, json_t *into)
{
    json_t *list = json_array();
    json_object_set_new(into, "fastest", list);
    for (int k = 0; k < t->config->n_keys; k++) {
        struct fastest f;
        TRY(find_fastest(t, k, &f));
        if (!f.row)
            continue;
        const struct throughput_combination *c = named_of(t, f.row);
        const struct throughput_combination *base = named_of(t, f.base);
        json_t *known = isnan(f.noise) ? json_null() : json_real(f.noise);
        json_t *within = isnan(f.noise) ? json_null() : json_boolean(f.ratio - 1 <= f.noise);
        json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:b, s:{s:s, s:b}, s:f, s:o, s:o}",
                                              "precision", t->config->key[k].precision, "batch",
                                              t->config->key[k].batch, "fuse", fuse_str(c->fuse),
                                              "graphs", c->graphs, "base", "fuse",
                                              fuse_str(base->fuse), "graphs", base->graphs, "ratio",
                                              f.ratio, "noise", known, "within_noise", within));
    }
    return STATUS_OK;
}

static void print_fastest(const struct throughput *t, int key)
{
    FILE *out = t->config->stream;
    struct fastest f;
    char best[48], base[48];
    if (t->config->n_combinations < 2 || find_fastest(t, key, &f) != STATUS_OK || !f.row)
        return;
    say_combination(named_of(t, f.row), best, sizeof best);
    say_combination(named_of(t, f.base), base, sizeof base);
    fprintf(out, "%s:%d fastest: %s", t->config->key[key].precision, t->config->key[key].batch,
            best);
    if (f.row == f.base)
        fprintf(out, ", the base\n");
    else if (isnan(f.noise))
        fprintf(out, ", %.3f times %s; of one round the noise is not known\n", f.ratio, base);
    else
        fprintf(out, ", %.3f times %s; rounds differ by %.1f %%: %s\n", f.ratio, base,
                f.noise * 100,
                f.ratio - 1 <= f.noise ? "the difference is within the noise"
                                       : "the difference is more than the noise");
}

/* --- the record --- */

static void add_how(const struct throughput *t, const struct throughput_row *row, json_t *o)
{
    const struct throughput_combination *named = named_of(t, row);
    const char *rung = rung_of(t, row);
    if (row->ladder.reported && row->n > 0) {
        json_object_set_new(o, "fuse", json_string(row->ladder.fuse));
        json_object_set_new(o, "graphs", json_boolean(row->ladder.graphs));
    } else if (named) {
        json_object_set_new(o, "fuse", json_string(fuse_str(named->fuse)));
        json_object_set_new(o, "graphs", json_boolean(named->graphs));
    }
    if (rung)
        json_object_set_new(o, "rung", json_string(rung));
    if (is_ours(row))
        json_object_set_new(o, "falls", train_falls_json(&row->ladder));
}

static enum status row_json(const struct throughput *t, const struct throughput_row *row,
                            json_t *rows)
{
    const struct throughput_key *key = &t->config->key[row->slot.key];
    struct stats s;
    json_t *o = json_pack("{s:s, s:i, s:s, s:i}", "precision", key->precision, "batch", key->batch,
                          "who", who_name[row->slot.who], "rounds", row->n);
    if (json_array_append_new(rows, o) != 0)
        return status_fail(STATUS_OOM, "no memory for the record");
    add_how(t, row, o);
    TRY(row_stats(row, &s));
    if (row->n > 0)
        json_object_set_new(
            o, "images_per_s",
            json_pack("{s:f, s:f, s:f}", "median", s.median, "min", s.min, "max", s.max));
    if (row->n == 0 || *row->why)
        json_object_set_new(o, "why", json_string(why_of(row)));
    return STATUS_OK;
}

enum status throughput_json(const struct throughput *t, json_t **record)
{
    const struct throughput_config *c = t->config;
    json_t *rows = json_array();
    TRY(bench_record("throughput", THROUGHPUT_SCHEMA, train_work_device(&t->work), c->threads,
                     record));
    json_object_set_new(*record, "net", json_string(c->net));
    json_object_set_new(*record, "image_size", json_integer(c->image_size));
    json_object_set_new(*record, "steps", json_integer(c->steps));
    json_object_set_new(*record, "unit", json_string("images/s"));
    if (c->peer)
        json_object_set_new(*record, "peer",
                            *t->peer.about ? json_string(t->peer.about) : json_null());
    if (*t->peer.why)
        json_object_set_new(*record, "peer_ended", json_string(t->peer.why));
    json_object_set_new(*record, "rows", rows);
    json_object_set_new(*record, "turns",
                        json_pack("{s:i, s:i}", "planned", t->plan.n_turns, "taken", t->taken));
    for (int i = 0; i < t->plan.n_slots; i++)
        TRY(row_json(t, &t->row[i], rows));
    return c->n_combinations > 1 ? fastest_json(t, *record) : STATUS_OK;
}

/* --- the table --- */

static void print_row(const struct throughput *t, const struct throughput_row *row)
{
    FILE *out = t->config->stream;
    const char *rung = rung_of(t, row);
    char name[128];
    struct stats s;
    throughput_row_name(t, row, name, sizeof name);
    if (row->n > 0 && row_stats(row, &s) == STATUS_OK)
        fprintf(out, "%-48s %10.1f %10.1f %10.1f %6d  %s\n", name, s.median, s.min, s.max, row->n,
                rung ? rung : "");
    else
        fprintf(out, "%-48s %10s  %s\n", name, "n/a", why_of(row));
    for (int i = 0; is_ours(row) && i < row->ladder.n_falls; i++)
        if (strcmp(row->ladder.fall[i].why, row->why) != 0)
            fprintf(out, "    '%s' failed: %s\n", train_rung_str(row->ladder.fall[i].rung),
                    row->ladder.fall[i].why);
    if (row->n > 0 && *row->why)
        fprintf(out, "    not in every round: %s\n", row->why);
}

/* Ours against the faster of the peer's. */
static void print_ratio(const struct throughput *t, int key)
{
    double ours = 0, theirs = 0;
    struct stats s;
    for (int i = 0; i < t->plan.n_slots; i++) {
        const struct throughput_row *row = &t->row[i];
        if (row->slot.key != key || row->slot.who == THROUGHPUT_FILES || row->n == 0 ||
            row_stats(row, &s) != STATUS_OK)
            continue;
        double *best = is_ours(row) ? &ours : &theirs;
        *best = fmax(*best, s.median);
    }
    if (ours > 0 && theirs > 0)
        fprintf(t->config->stream, "%s:%d: %.3f times PyTorch\n", t->config->key[key].precision,
                t->config->key[key].batch, ours / theirs);
}

void throughput_print(const struct throughput *t)
{
    const struct throughput_config *c = t->config;
    fprintf(c->stream, "%s\n%s, %d px, %d steps a turn\n", train_work_device(&t->work), c->net,
            c->image_size, c->steps);
    if (*t->peer.about)
        fprintf(c->stream, "peer: %s\n", t->peer.about);
    if (*t->peer.why)
        fprintf(c->stream, "the peer ended: %s\n", t->peer.why);
    fprintf(c->stream, "%-48s %10s %10s %10s %6s  %s\n", "row", "images/s", "min", "max", "rounds",
            "rung");
    for (int i = 0; i < t->plan.n_slots; i++)
        print_row(t, &t->row[i]);
    for (int k = 0; k < c->n_keys; k++) {
        print_fastest(t, k);
        print_ratio(t, k);
    }
    fprintf(c->stream, "%d of %d turns\n", t->taken, t->plan.n_turns);
}
