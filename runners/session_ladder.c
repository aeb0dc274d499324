/* Chooses the first rung of a run, and moves it to lower rungs (engine/ladder.h). */
#include "runners/session.h"

#include "base/file.h"
#include "results/schema.h"

#include <string.h>

/* Finds the fusion with which the resumed run was trained, because another fusion would change bits
 * of the results. Reads it from the checkpoint that will be loaded or, with --resume auto, from the
 * newest checkpoint that names a fusion. Sets *fuse to FUSE_COUNT if the fusion is not known. */
static enum status recorded_fuse(const struct session *s, enum fuse *fuse)
{
    static const char *const names[] = {CHECKPOINT_NAME, CHECKPOINT_PREV_NAME};
    const struct train_config *c = s->config;
    char path[4096];
    *fuse = FUSE_COUNT;
    if (!c->resume || c->evaluate)
        return STATUS_OK;
    if (strcmp(c->resume, "auto") != 0)
        TRY(checkpoint_fuse(c->resume, fuse));
    for (size_t i = 0; i < 2 && *s->dir && strcmp(c->resume, "auto") == 0 && *fuse == FUSE_COUNT;
         i++) {
        TRY(path_format(path, sizeof path, "%s/%s", s->dir, names[i]));
        TRY(checkpoint_fuse(path, fuse));
    }
    return STATUS_OK;
}

enum status session_settle_ladder(struct session *s)
{
    const struct train_config *c = s->config;
    const struct backend *b = s->devices.backend;
    enum fuse recorded = FUSE_COUNT;
    if (session_leads(s))
        TRY(recorded_fuse(s, &recorded));
    TRY(world_share(&s->world, &recorded, sizeof recorded));
    bool known = recorded != FUSE_COUNT && !c->fuse_named;
    enum fuse_choice choice = known ? FUSE_RESUMED : c->fuse_named ? FUSE_NAMED : FUSE_FREE;
    ladder_begin(&s->ladder, b->capture_begin != NULL, known ? recorded : c->fuse, choice,
                 engine_may_replay(b, c->no_graph, c->sync_bn));
    return STATUS_OK;
}

static enum status give_up_graphs(struct session *s, const char *why)
{
    TRY(ladder_fall(&s->ladder, FAILED_CAPTURE, status_fail(STATUS_LIBRARY, "%s", why)));
    engine_drop_graphs(s->engine, why);
    return STATUS_OK;
}

enum status session_share_graphs(struct session *s)
{
    const char *why = engine_graphs_lost(s->engine);
    double lost = why != NULL;
    if (s->world.size > 1)
        TRY(comm_sum(s->world.comm, &lost, 1));
    if (lost == 0)
        return STATUS_OK;
    TRY(give_up_graphs(s, why ? why : "another rank cannot replay graphs"));
    if (session_leads(s))
        ladder_warn(&s->ladder);
    return STATUS_OK;
}

void session_watch_graphs(struct session *s)
{
    const char *why = engine_graphs_lost(s->engine);
    if (why && ladder_graphs(&s->ladder) && give_up_graphs(s, why) == STATUS_OK)
        ladder_warn(&s->ladder);
}

enum status session_leave_rung(struct session *s, enum status st)
{
    const char *lost = engine_graphs_lost(s->engine);
    if (s->world.size > 1)
        return ladder_explain(&s->ladder, lost ? FAILED_CAPTURE : FAILED_STEP, st);
    if (lost)
        st = status_fail(st, "%s", lost);
    TRY(engine_fall(s->engine, lost ? FAILED_CAPTURE : FAILED_STEP, st));
    ladder_warn(&s->ladder);
    engine_close(s->engine);
    s->engine = NULL;
    return STATUS_OK;
}
