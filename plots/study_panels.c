/* Chooses which lines of a figure share a panel, and labels the lines there. */
#include "plots/study_panels.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

/* Keys by which figures may be divided, the preferred ones first. The batch is not among them: a
 * line has this key only if all its other keys are equal to those of another line. */
static const enum study_key cut_keys[] = {STUDY_ARCH, STUDY_DATA, STUDY_PRECISION, STUDY_SCALING,
                                          STUDY_MODE};
enum { N_KEYS = sizeof cut_keys / sizeof *cut_keys, N_CUTS = N_KEYS * (N_KEYS + 1) / 2 };

/* Divides the lines by two keys, or by one key if a == b. */
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

/* Returns whether this figure draws line i and the line belongs to the study. */
static bool has_keys(const struct study_lines *l, const bool drawn[], int i)
{
    return drawn[i] && !l->line[i].is_published;
}

/* Returns a number that stands for line i's value of `key`: the index of the first line with the
 * same value. Such numbers put values in the order of the study. */
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

/* Sets p->panel and p->n. Panels are sorted by the value of cut->a, then by the value of cut->b. */
static void assign(const struct study_lines *l, const bool drawn[], const struct cut *cut,
                   struct study_panels *p)
{
    int value[STUDY_LINES_MAX] = {0};
    bool is_first[STUDY_LINES_MAX] = {false};
    p->n = 0;
    for (int i = 0; i < l->n; i++) {
        p->panel[i] = STUDY_NO_PANEL;
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

/* Returns the largest number of lines in a panel. */
static int fullest(const struct study_lines *l, const struct study_panels *p)
{
    int count[STUDY_LINES_MAX] = {0}, most = 0;
    for (int i = 0; i < l->n; i++)
        if (p->panel[i] >= 0 && ++count[p->panel[i]] > most)
            most = count[p->panel[i]];
    return most;
}

/* Makes one panel. The legend contains all lines, also those that this figure does not draw. A line
 * therefore looks the same in all figures with one panel. */
static void whole(const struct study_lines *l, const bool drawn[], struct study_panels *p)
{
    bool some = false; /* lines of the study */
    for (int i = 0; i < l->n; i++)
        some = some || has_keys(l, drawn, i);
    p->n = 1;
    p->title[0][0] = '\0';
    p->n_entries = l->n;
    for (int i = 0; i < l->n; i++) {
        p->panel[i] = drawn[i] && (has_keys(l, drawn, i) || !some) ? 0 : STUDY_NO_PANEL;
        p->entry[i] = i;
        memcpy(p->label[i], l->line[i].label, FIGURE_LABEL_MAX);
    }
}

/* Makes the titles of the panels from the keys by which the figure is divided, and the entries of
 * the legend from the other keys. */
static void name(const struct study_lines *l, const bool drawn[], const struct cut *cut,
                 struct study_panels *p)
{
    bool in_title[STUDY_KEYS] = {false}, in_legend[STUDY_KEYS];
    study_lines_vary(l, drawn, in_legend);
    in_legend[STUDY_MODE] = in_legend[STUDY_PRECISION] = true; /* every label has these */
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

/* Returns whether all lines of a panel have the network, the precision and the data of published
 * line i. Returns false if one of these three is not known. */
static bool agrees(const struct study_lines *l, const struct study_panels *p, int panel, int i)
{
    static const enum study_key keys[] = {STUDY_ARCH, STUDY_PRECISION, STUDY_DATA};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const char *theirs = l->line[i].key[keys[k]];
        if (!theirs[0])
            return false;
        for (int m = 0; m < l->n; m++)
            if (p->panel[m] == panel && strcmp(l->line[m].key[keys[k]], theirs) != 0)
                return false;
    }
    return true;
}

/* Puts each published line into the first panel that agrees with it, else into a panel of its own.
 */
static void place_published(const struct study_lines *l, const bool drawn[], struct study_panels *p)
{
    int n = p->n;
    for (int i = 0; i < l->n; i++) {
        int panel = 0;
        if (!drawn[i] || p->panel[i] != STUDY_NO_PANEL)
            continue;
        while (panel < n && !agrees(l, p, panel, i))
            panel++;
        p->panel[i] = panel < n ? panel : p->n++;
        if (panel < n)
            continue;
        char *title = p->title[p->panel[i]];
        memcpy(title, l->line[i].label, FIGURE_LABEL_MAX);
        if (l->line[i].key[STUDY_ARCH][0])
            text_join(title, FIGURE_LABEL_MAX, ", ", "%s", l->line[i].key[STUDY_ARCH]);
        if (l->line[i].key[STUDY_PRECISION][0])
            text_join(title, FIGURE_LABEL_MAX, " ", "%s", l->line[i].key[STUDY_PRECISION]);
    }
    if (p->n > n && !p->title[0][0])
        strcpy(p->title[0], "this study");
}

void study_panels_choose(const struct study_lines *l, const bool drawn[], enum study_key first,
                         struct study_panels *p)
{
    struct cut cut[N_CUTS], best = {STUDY_KEYS, STUDY_KEYS};
    cuts_list(first, cut);
    whole(l, drawn, p);
    int fewest = fullest(l, p);
    for (int c = 0; fewest > STUDY_PANEL_LINES && c < N_CUTS; c++) {
        assign(l, drawn, &cut[c], p);
        int lines = fullest(l, p);
        if (lines >= 2 && lines < fewest) { /* a division is useless if every panel has only one
                                             * line */
            best = cut[c];
            fewest = lines;
        }
    }
    if (best.a == STUDY_KEYS) {
        whole(l, drawn, p);
    } else {
        /* The figure shows two panels in each row, with different values of the second key. If only
         * one key has exactly two values, it becomes the second key. */
        if (values_of(l, drawn, best.a) == 2 && values_of(l, drawn, best.b) > 2)
            best = (struct cut){best.b, best.a};
        assign(l, drawn, &best, p);
        name(l, drawn, &best, p);
    }
    place_published(l, drawn, p);
}

/* Returns whether the ideal of line k covers the ideal of line i: at every point of line i, the two
 * ideals are so near each other that a reader cannot distinguish them. */
static bool lies_on(const struct study_line *i, const struct study_line *k, enum quantity q)
{
    for (int a = 0; a < i->n; a++) {
        double ideal = i->point[a].value[q].ideal;
        bool found = !isfinite(ideal);
        for (int b = 0; !found && b < k->n; b++)
            found = k->point[b].x == i->point[a].x &&
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
        if (k == i || p->panel[k] != p->panel[i] || !lies_on(&l->line[i], &l->line[k], q))
            continue;
        if (k < i || !lies_on(&l->line[k], &l->line[i], q))
            return false; /* of two equal ideals, the first one is drawn */
    }
    return true;
}
