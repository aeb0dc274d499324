/* Inside runners/: the ladder of a run, between its session and the policy (runners/ladder.h). */
#ifndef RUNNERS_SESSION_LADDER_H
#define RUNNERS_SESSION_LADDER_H

#include "runners/session.h"

/* Chooses the first rung: as configured, or as the checkpoint that is resumed was fused. All ranks
 * call it. */
MUST_CHECK enum status session_settle_ladder(struct session *s);

/* The engine has failed at its rehearsal with `st`: STATUS_OK, and the engine closed, where it is
 * to be opened on the next rung. Ranks that wait for each other in a sum cannot change their rung
 * together: there the failure is returned, with the way out. */
MUST_CHECK enum status session_leave_rung(struct session *s, enum status st);

/* Where a device of one rank gave up its graphs all do, so that no rank is slower than another. All
 * ranks call it. */
MUST_CHECK enum status session_share_graphs(struct session *s);
#endif
