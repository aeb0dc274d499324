/* Chooses the rung of a run. After a failure, moves the run to a lower rung; such a move is called
 * a fall. Writes messages about the falls, and a record of them. */
#include "engine/ladder.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ladder_begin(struct ladder *l, bool applies, enum fuse fuse, enum fuse_choice choice,
                  bool graphs)
{
    l->applies = applies;
    l->fuse = fuse;
    l->choice = choice;
    l->rung |= (fuse == FUSE_NONE ? RUNG_UNFUSED : 0) | (graphs ? 0 : RUNG_NO_GRAPH);
}

/* The bits that a rung must have to avoid a failure of this kind. */
static int remedy(enum ladder_failure kind)
{
    static const int without[LADDER_FAILURE_COUNT] = {
        [FAILED_PLAN] = RUNG_UNFUSED, [FAILED_CAPTURE] = RUNG_NO_GRAPH};
    return without[kind];
}

/* The rung to try when the current rung has failed; -1: no rung can help. */
static int next_rung(const struct ladder *l, enum ladder_failure kind)
{
    int without = remedy(kind);
    if (!l->applies || (l->rung & without))
        return -1;
    for (int i = 0; i < l->n_falls; i++)
        without |= remedy(l->fall[i].kind);
    for (int r = l->rung + 1; r < RUNG_COUNT; r++) {
        bool fuses_alike = ((r ^ l->rung) & RUNG_UNFUSED) == 0;
        if ((r & without) == without && (fuses_alike || l->choice == FUSE_FREE))
            return r;
    }
    return -1;
}

enum status ladder_explain(const struct ladder *l, enum ladder_failure kind, enum status st)
{
    static const char *const flags[RUNG_COUNT] = {[RUNG_UNFUSED] = "--fuse none",
                                                  [RUNG_NO_GRAPH] = "--no-graph",
                                                  [RUNG_UNFUSED | RUNG_NO_GRAPH] =
                                                      "--fuse none --no-graph"};
    char why[STATUS_MESSAGE_MAX];
    int left = (kind == FAILED_STEP ? RUNG_UNFUSED | RUNG_NO_GRAPH : remedy(kind)) & ~l->rung;
    if (!l->applies || left == 0 || st != STATUS_LIBRARY)
        return st;
    snprintf(why, sizeof why, "%s", status_message());
    if ((left & RUNG_UNFUSED) && l->choice == FUSE_RESUMED)
        return status_fail(st,
                           "%s; the checkpoint was trained with --fuse %s; try %s, which changes "
                           "the bits of the run's results",
                           why, fuse_str(l->fuse), flags[left]);
    return status_fail(st, "%s; try %s", why, flags[left]);
}

enum status ladder_fall(struct ladder *l, enum ladder_failure kind, enum status st)
{
    /* Decides whether a lower rung can help. A device without memory for graphs may have enough
     * memory if graphs are not used. If memory is short for any other purpose, no rung helps,
     * because unfused operations need more memory than fused ones. */
    bool of_graphs = kind == FAILED_CAPTURE && (st == STATUS_UNSUPPORTED || st == STATUS_OOM);
    if (st != STATUS_LIBRARY && !of_graphs)
        return st;
    int next = next_rung(l, kind);
    if (next < 0)
        return ladder_explain(l, kind, st);
    struct ladder_fall *f = &l->fall[l->n_falls++];
    f->rung = l->rung;
    f->kind = kind;
    snprintf(f->why, sizeof f->why, "%s", status_message());
    l->rung = next;
    return STATUS_OK;
}

void ladder_warn(const struct ladder *l)
{
    char from[RUNG_NAME_MAX], to[RUNG_NAME_MAX];
    const struct ladder_fall *f = &l->fall[l->n_falls - 1];
    ladder_rung_name(l, f->rung, from);
    ladder_rung_name(l, l->rung, to);
    fprintf(stderr, "ampscale: warning: rung '%s' failed: %s; the run continues on rung '%s'\n",
            from, f->why, to);
}

enum fuse ladder_fuse(const struct ladder *l)
{
    return l->rung & RUNG_UNFUSED ? FUSE_NONE : l->fuse;
}

bool ladder_graphs(const struct ladder *l)
{
    return !(l->rung & RUNG_NO_GRAPH);
}

void ladder_rung_name(const struct ladder *l, int rung, char name[RUNG_NAME_MAX])
{
    enum fuse fuse = rung & RUNG_UNFUSED ? FUSE_NONE : l->fuse;
    bool fuses_auto = fuse == FUSE_AUTO, graphs = !(rung & RUNG_NO_GRAPH);
    if (fuses_auto)
        snprintf(name, RUNG_NAME_MAX, "%s", graphs ? "auto" : "no graph");
    else
        snprintf(name, RUNG_NAME_MAX, "fuse %s%s", fuse_str(fuse), graphs ? "" : ", no graph");
}

static json_t *falls_json(const struct ladder *l)
{
    json_t *falls = json_array();
    for (int i = 0; i < l->n_falls; i++) {
        char rung[RUNG_NAME_MAX];
        ladder_rung_name(l, l->fall[i].rung, rung);
        json_add(falls, json_new("{s:s, s:s}", "rung", rung, "why", l->fall[i].why));
    }
    return falls;
}

json_t *ladder_json(const struct ladder *l)
{
    char rung[RUNG_NAME_MAX];
    ladder_rung_name(l, l->rung, rung);
    return json_new("{s:s, s:b, s:s, s:o}", "fuse", fuse_str(ladder_fuse(l)), "graphs",
                    ladder_graphs(l), "rung", rung, "falls", falls_json(l));
}
