/* Inside runners/: threads that do each step's work together, one for each device. */
#ifndef RUNNERS_TEAM_H
#define RUNNERS_TEAM_H

#include "base/status.h"

struct team;

/* `members` >= 1; member 0 is the caller of team_run, so that a team of one starts no thread. */
MUST_CHECK enum status team_open(int members, struct team **team);
void team_close(struct team *team); /* NULL is fine */

/* Runs work(context, member) for every member, each always on the same thread, and returns when
 * all are done: the failure that came first, with its message. */
MUST_CHECK enum status team_run(struct team *team, enum status (*work)(void *context, int member),
                                void *context);

/* For work that is about to fail with `st` and has others fail for its sake, before it tells them:
 * its own failure comes first. */
void team_fail(struct team *team, enum status st);

#endif
