/* The ladder: how a run continues on a device where the fastest way to compute fails.
 *
 * A device that replays graphs can compute a step in four ways, from the fastest to the plainest:
 *
 *   auto                  fusion as set by --fuse (default: auto), phases launched as graphs
 *   fuse none             no fused operations
 *   no graph              no graphs
 *   fuse none, no graph   neither fused operations nor graphs
 *
 * Each way is a rung. A run that fails before its first step continues on a lower rung, unless the
 * user chose the failed part (fusion or graphs) with a flag. After a failure to plan operations,
 * only rungs without fused operations are tried. After a failure to record or launch a graph, only
 * rungs without graphs are tried. After a failure to execute operations, all lower rungs are tried
 * in turn. A run never moves up, so it tries each rung at most once. Graphs change no bit of the
 * results. Fused operations change bits, because they sum in another order. A resumed run therefore
 * keeps the fusion that its checkpoint was trained with. */
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
    bool applies; /* the device replays graphs; if not, there is only one rung, and the run's record
                     omits the rung */
    enum fuse fuse; /* fusion level of rungs without RUNG_UNFUSED */
    enum fuse_choice choice;
    int rung;
    int n_falls;
    struct ladder_fall fall[RUNG_COUNT - 1];
};

/* Sets the first rung. `fuse` and `graphs` are what the user requested, limited to what the device
 * can do. */
void ladder_begin(struct ladder *l, bool applies, enum fuse fuse, enum fuse_choice choice,
                  bool graphs);

/* Moves to the next rung after failure `st`, which this thread's status message describes. Returns
 * STATUS_OK if the caller should try that rung. Otherwise returns `st`, because no device or
 * library failed, or because no rung is left. If no rung is left, the message names the flags that
 * may still help. */
MUST_CHECK enum status ladder_fall(struct ladder *l, enum ladder_failure kind, enum status st);

/* Returns `st`, and adds the flags that may help to this thread's status message. */
MUST_CHECK enum status ladder_explain(const struct ladder *l, enum ladder_failure kind,
                                      enum status st);

/* Prints one line about the last fall to stderr. */
void ladder_warn(const struct ladder *l);

/* The fusion level, and whether graphs are used, on the current rung. */
enum fuse ladder_fuse(const struct ladder *l);
bool ladder_graphs(const struct ladder *l);

enum { RUNG_NAME_MAX = 32 };

/* Writes the name of a rung: "auto", "fuse none", "no graph" or "fuse none, no graph". If l->fuse
 * is not auto but, for example, stats, the name is "fuse stats" in place of "auto", and "fuse
 * stats, no graph" in place of "no graph". */
void ladder_rung_name(const struct ladder *l, int rung, char name[RUNG_NAME_MAX]);

/* {"fuse", "graphs", "rung", "falls": [{"rung", "why"}]}, for the record. */
json_t *ladder_json(const struct ladder *l);
