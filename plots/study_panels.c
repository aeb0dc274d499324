/* Which lines of a figure share a panel, and how they are called there. */
#include "plots/study_panels.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Keys by which figures are cut, the best first. The batch is none: some lines have only that to
 * tell them apart. */
static const enum study_key cut_keys[] = {STUDY_ARCH, STUDY_DATA, STUDY_PRECISION, STUDY_SCALING,
                                          STUDY_MODE};
enum { N_KEYS = sizeof cut_keys / sizeof *cut_keys, N_CUTS = N_KEYS * (N_KEYS + 1) / 2 };

/* By one key where both are the same. */
struct cut {
    enum study_key a, b;
};

static void cuts_list(enum study_key first, struct cut cut[N_CUTS])
{
    enum study_key key[N_KEYS] = {first};
    int n_keys = 1, n = 0;
    for (int k = 0; k < N_KEYS; k++)
        if (cut_keys[k] != first)
            key[n_keys++] = cut_keys[k];
    for (int a = 0; a < N_KEYS; a++)
        cut[n++] = (struct cut){key[a], key[a]};
    for (int a = 0; a < N_KEYS; a++)
        for (int b = a + 1; b < N_KEYS; b++)
            cut[n++] = (struct cut){key[a], key[b]};
}

static bool has_keys(const struct study_lines *l, const bool drawn[], int i)
{
    return drawn[i] && !l->line[i].is_published;
}

/* The first line that has line i's value of a key: values come in the order of the study. */
static int value_of(const struct study_lines *l, const bool drawn[], int i, enum study_key key)
{
    for (int k = 0; k < i; k++)
        if (has_keys(l, drawn, k) && strcmp(l->line[k].key[key], l->line[i].key[key]) == 0)
            return k;
    return i;
}

static int values_of(const struct study_lines *l, const bool drawn[], enum study_key key)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += has_keys(l, drawn, i) && value_of(l, drawn, i, key) == i;
    return n;
}

/* Sets p->panel and p->n; panels are in the order of the values of a, then of b. */
static void assign(const struct study_lines *l, const bool drawn[], const struct cut *cut,
                   struct study_panels *p)
{
    int value[STUDY_LINES_MAX] = {0};
    bool is_first[STUDY_LINES_MAX] = {false};
    p->n = 0;
    for (int i = 0; i < l->n; i++) {
        p->panel[i] = drawn[i] ? STUDY_EVERY_PANEL : STUDY_NO_PANEL;
        if (!has_keys(l, drawn, i))
            continue;
        value[i] = value_of(l, drawn, i, cut->a) * STUDY_LINES_MAX + value_of(l, drawn, i, cut->b);
        is_first[i] = true;
        for (int k = 0; k < i; k++)
            is_first[i] = is_first[i] && !(is_first[k] && value[k] == value[i]);
        p->n += is_first[i];
    }
    for (int i = 0; i < l->n; i++) {
        if (!has_keys(l, drawn, i))
            continue;
        p->panel[i] = 0;
        for (int k = 0; k < l->n; k++)
            p->panel[i] += is_first[k] && value[k] < value[i];
    }
}

/* Lines of the fullest panel; *own: those that are in no other. */
static int fullest(const struct study_lines *l, const struct study_panels *p, int *own)
{
    int count[STUDY_LINES_MAX] = {0}, everywhere = 0;
    *own = 0;
    for (int i = 0; i < l->n; i++) {
        everywhere += p->panel[i] == STUDY_EVERY_PANEL;
        if (p->panel[i] >= 0 && ++count[p->panel[i]] > *own)
            *own = count[p->panel[i]];
    }
    return *own + everywhere;
}

/* All in one: every line is an entry of the legend, and so looks the same in all such figures. */
static void whole(const struct study_lines *l, const bool drawn[], struct study_panels *p)
{
    p->n = 1;
    p->title[0][0] = '\0';
    p->n_entries = l->n;
    for (int i = 0; i < l->n; i++) {
        p->panel[i] = drawn[i] ? 0 : STUDY_NO_PANEL;
        p->entry[i] = i;
        memcpy(p->label[i], l->line[i].label, FIGURE_LABEL_MAX);
    }
}

/* Titles of the panels, and the legend: what the cut leaves to tell lines apart. */
static void name(const struct study_lines *l, const bool drawn[], const struct cut *cut,
                 struct study_panels *p)
{
    bool in_title[STUDY_KEYS] = {false}, in_legend[STUDY_KEYS];
    study_lines_vary(l, drawn, in_legend);
    in_legend[STUDY_MODE] = in_legend[STUDY_PRECISION] = true; /* a line is called by these */
    in_title[cut->a] = in_title[cut->b] = true;
    in_legend[cut->a] = in_legend[cut->b] = false;
    p->n_entries = 0;
    for (int i = 0; i < l->n; i++) {
        char *label = p->label[p->n_entries];
        if (!drawn[i])
            continue;
        if (p->panel[i] >= 0) {
            study_line_name(&l->line[i], in_title, ", ", p->title[p->panel[i]]);
            study_line_name(&l->line[i], in_legend, " ", label);
        } else {
            memcpy(label, l->line[i].label, FIGURE_LABEL_MAX);
        }
        p->entry[i] = 0;
        while (strcmp(p->label[p->entry[i]], label) != 0)
            p->entry[i]++;
        p->n_entries += p->entry[i] == p->n_entries;
    }
}

void study_panels_choose(const struct study_lines *l, const bool drawn[], enum study_key first,
                         struct study_panels *p)
{
    struct cut cut[N_CUTS], best = {STUDY_KEYS, STUDY_KEYS};
    int own;
    cuts_list(first, cut);
    whole(l, drawn, p);
    int fewest = fullest(l, p, &own);
    for (int c = 0; fewest > STUDY_PANEL_LINES && c < N_CUTS; c++) {
        assign(l, drawn, &cut[c], p);
        int lines = fullest(l, p, &own);
        if (own >= 2 && lines < fewest) { /* a panel of one line compares nothing */
            best = cut[c];
            fewest = lines;
        }
    }
    if (best.a == STUDY_KEYS) {
        whole(l, drawn, p);
    } else {
        /* Panels stand two in a row: a key of two values runs along it. */
        if (values_of(l, drawn, best.a) == 2 && values_of(l, drawn, best.b) > 2)
            best = (struct cut){best.b, best.a};
        assign(l, drawn, &best, p);
        name(l, drawn, &best, p);
    }
}

/* Whether every point of line i's ideal is one of line k's, as far as the eye can tell. */
static bool lies_on(const struct study_line *i, const struct study_line *k, enum quantity q)
{
    for (int a = 0; a < i->n; a++) {
        double ideal = i->point[a].value[q].ideal;
        bool found = !isfinite(ideal);
        for (int b = 0; !found && b < k->n; b++)
            found = k->point[b].devices == i->point[a].devices &&
                    fabs(k->point[b].value[q].ideal - ideal) <= 1e-3 * fabs(ideal);
        if (!found)
            return false;
    }
    return true;
}

bool study_panels_ideal(const struct study_panels *p, const struct study_lines *l, int i,
                        enum quantity q)
{
    for (int k = 0; k < l->n; k++) {
        bool beside = p->panel[k] == STUDY_EVERY_PANEL || p->panel[k] == p->panel[i];
        if (k == i || !beside || !lies_on(&l->line[i], &l->line[k], q))
            continue;
        if (k < i || !lies_on(&l->line[k], &l->line[i], q))
            return false; /* of two that are the same the first is drawn */
    }
    return true;
}
