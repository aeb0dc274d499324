/* Training on a device where the fastest way to compute fails: the rungs below it.
 *
 * A device that replays graphs can compute a step in four ways, from the fastest to the plainest:
 *
 *   auto                  what --fuse says (auto by default), phases launched as graphs
 *   fuse none             no fused operations
 *   no graph              no graphs
 *   fuse none, no graph   neither
 *
 * A run whose rung fails before its first step continues on a lower one, unless the user named the
 * part that failed. A failure to plan can be remedied without fused operations alone, one to record
 * or launch a graph without graphs alone; after one to execute, all lower rungs are tried in turn.
 * Rungs only go down, so that a run tries each at most once. Graphs change no bit of what is
 * computed; fused operations do, for they sum in another order: a resumed run therefore stays with
 * what its checkpoint was trained with. */
#ifndef RUNNERS_LADDER_H
#define RUNNERS_LADDER_H

#include "base/status.h"
#include "model/network.h"

#include <jansson.h>
#include <stdbool.h>

/* A rung's number is these bits. */
enum { RUNG_UNFUSED = 1, RUNG_NO_GRAPH = 2, RUNG_COUNT = 4 };

enum ladder_failure {
    FAILED_PLAN,    /* to plan operations */
    FAILED_CAPTURE, /* to record a graph, or to launch it */
    FAILED_STEP,    /* to execute */
    LADDER_FAILURE_COUNT
};

struct ladder_fall {
    int rung; /* that failed */
    enum ladder_failure kind;
    char why[512];
};

/* Why fused operations are as they are, and stay. */
enum fuse_choice { FUSE_FREE, FUSE_NAMED, FUSE_RESUMED };

struct ladder {
    bool applies;   /* the device replays graphs; else there is one way, and no record of it */
    enum fuse fuse; /* on rungs that fuse */
    enum fuse_choice choice;
    int rung;
    int n_falls;
    struct ladder_fall fall[RUNG_COUNT - 1];
    /* A device that answers no more in this process: can the run begin again in another, and must
     * it? */
    bool may_restart, restart;
};

/* Where a run begins: `fuse` and `graphs` as they are asked for and can be. A ladder that has falls
 * of an earlier process (ladder_parse) stays where these led. */
void ladder_begin(struct ladder *l, bool applies, enum fuse fuse, enum fuse_choice choice,
                  bool graphs);

/* The rung to try when the ladder's has failed; -1: there is none that helps. */
int ladder_next(const struct ladder *l, enum ladder_failure kind);

/* Takes the failure `st` of this thread's message down the ladder. STATUS_OK: the next rung is to
 * be tried. Else `st`, where it is no failure of a device or library, or where no rung is left;
 * then the message names the flags that may still help. */
MUST_CHECK enum status ladder_fall(struct ladder *l, enum ladder_failure kind, enum status st);

/* Fails with `st` and this thread's message, to which the flags are added that may help. */
MUST_CHECK enum status ladder_explain(const struct ladder *l, enum ladder_failure kind,
                                      enum status st);

/* One line on stderr about the last fall. */
void ladder_warn(const struct ladder *l);

/* What the run uses. */
enum fuse ladder_fuse(const struct ladder *l);
bool ladder_graphs(const struct ladder *l);

enum { RUNG_NAME_MAX = 32 };

/* "auto", "fuse none", "no graph" or "fuse none, no graph"; with a named --fuse, "fuse stats" ...
 */
void ladder_rung_name(const struct ladder *l, int rung, char name[RUNG_NAME_MAX]);

/* {"fuse", "graphs", "rung", "falls": [{"rung", "why"}]}, for the record. NULL without memory. */
json_t *ladder_json(const struct ladder *l);

/* What a process that begins the run again needs to know, as one line of text that the caller
 * frees; NULL without memory. Reading returns false, with *l zeroed, for any other text. */
char *ladder_text(const struct ladder *l);
bool ladder_parse(const char *text, struct ladder *l);

#endif
