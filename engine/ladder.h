/* The ladder: how a run continues on a device where the fastest way to compute fails.
 *
 * A device that replays graphs can compute a step in four ways, from the fastest to the plainest:
 *
 *   auto                  as --fuse asks (auto by default), phases launched as graphs
 *   fuse none             no fused operations
 *   no graph              no graphs
 *   fuse none, no graph   neither
 *
 * Each way is a rung. A run whose rung fails before its first step continues on a lower rung,
 * unless a flag of the user chose the part that failed. After a failure to plan, only rungs without
 * fused operations are tried; after one to record or launch a graph, only rungs without graphs;
 * after one to execute, all lower rungs in turn. A run only goes down, so it tries each rung at
 * most once. Graphs change no bit of the results; fused operations do, because they sum in another
 * order: a resumed run therefore keeps the fusion that its checkpoint was trained with. */
#pragma once

#include "base/status.h"
#include "model/network.h"

#include <jansson.h>
#include <stdbool.h>

/* A rung's number is a combination of these bits. */
enum { RUNG_UNFUSED = 1, RUNG_NO_GRAPH = 2, RUNG_COUNT = 4 };

enum ladder_failure {
    FAILED_PLAN,    /* operations could not be planned */
    FAILED_CAPTURE, /* a graph could not be recorded or launched */
    FAILED_STEP,    /* operations failed when executed */
    LADDER_FAILURE_COUNT
};

struct ladder_fall {
    int rung; /* the rung that failed */
    enum ladder_failure kind;
    char why[512];
};

/* Who chose the fusion: the ladder (which may change it), the user or the checkpoint. */
enum fuse_choice { FUSE_FREE, FUSE_NAMED, FUSE_RESUMED };

struct ladder {
    bool applies;   /* the device replays graphs; if not, there is only one rung, and it is not
                     * recorded */
    enum fuse fuse; /* fusion level of rungs without RUNG_UNFUSED */
    enum fuse_choice choice;
    int rung;
    int n_falls;
    struct ladder_fall fall[RUNG_COUNT - 1];
    /* may_restart: the run can start again in another process. restart: it must start again there,
     * because a device no longer works in this process. */
    bool may_restart, restart;
};

/* Sets the first rung from the requested and possible `fuse` and `graphs`. A ladder with falls of
 * an earlier process (ladder_parse) stays on the rung that it reached. */
void ladder_begin(struct ladder *l, bool applies, enum fuse fuse, enum fuse_choice choice,
                  bool graphs);

/* The rung to try when the current one has failed; -1: none can help. */
int ladder_next(const struct ladder *l, enum ladder_failure kind);

/* Moves to the next rung after failure `st` (this thread's message). STATUS_OK: try that rung. Else
 * returns `st`, because it is not a failure of a device or library, or because no rung is left; in
 * the second case the message names the flags that may still help. */
MUST_CHECK enum status ladder_fall(struct ladder *l, enum ladder_failure kind, enum status st);

/* Returns `st` with this thread's message, and adds the flags that may help. */
MUST_CHECK enum status ladder_explain(const struct ladder *l, enum ladder_failure kind,
                                      enum status st);

/* Prints one line about the last fall to stderr. */
void ladder_warn(const struct ladder *l);

/* The fusion level, and whether graphs are used, on the current rung. */
enum fuse ladder_fuse(const struct ladder *l);
bool ladder_graphs(const struct ladder *l);

enum { RUNG_NAME_MAX = 32 };

/* "auto", "fuse none", "no graph" or "fuse none, no graph"; if l->fuse is not auto, its name stands
 * instead: "fuse stats" or "fuse stats, no graph". */
void ladder_rung_name(const struct ladder *l, int rung, char name[RUNG_NAME_MAX]);

/* {"fuse", "graphs", "rung", "falls": [{"rung", "why"}]}, for the record. NULL if out of memory. */
json_t *ladder_json(const struct ladder *l);

/* The rung and the falls as one line of text, for a process that starts the run again; the caller
 * frees it; NULL if out of memory. Parsing any other text returns false and zeroes *l. */
char *ladder_text(const struct ladder *l);
bool ladder_parse(const char *text, struct ladder *l);
