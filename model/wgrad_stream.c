/* Computes weight gradients on a separate stream, while the network's stream computes data
 * gradients and batch norms.
 *
 * A weight gradient starts at its place in the backward phase (the fork). It must be complete at
 * the join, which is before the first of these:
 *     - an operation that uses memory that the weight gradient writes, or that writes memory that
 *       the weight gradient uses
 *     - the next weight gradient
 *     - the end of the segment
 *
 * At most one weight gradient is therefore in progress. Until the join, no other value is placed in
 * the memory that it uses, and it has its own workspace. The results therefore have the same bits
 * with and without the second stream. */
#include "model/program.h"

static const uint64_t WEIGHT_GRADIENTS =
    OP_SET(CONV_BWD_WEIGHTS) | OP_SET(CONV_APPLY_BWD_WEIGHTS) | OP_SET(LINEAR_BWD_WEIGHTS);

/* Whether both references are to the same memory. All parts of a flat buffer count as the same
 * memory. */
static bool same_memory(const struct program *p, struct ref a, struct ref b)
{
    if (a.space == SPACE_VALUE && b.space == SPACE_VALUE)
        return p->value[a.index].storage == p->value[b.index].storage;
    return a.space != SPACE_NONE && a.space == b.space && a.index == b.index;
}

/* Whether step `later` has to wait for step `s`, because one step writes memory that the other step
 * uses. Ignores the workspaces, which are separate. */
static bool depends(const struct program *p, const struct step *later, const struct step *s)
{
    const uint64_t written[] = {op_roles(s->plan->desc.kind).writes,
                                op_roles(later->plan->desc.kind).writes};
    for (int r = 0; r < ROLE_COUNT; r++)
        for (int k = 0; k < ROLE_COUNT; k++)
            if (r != ROLE_WORKSPACE && k != ROLE_WORKSPACE &&
                (written[0] >> r & 1 || written[1] >> k & 1) &&
                same_memory(p, s->ref[r], later->ref[k]))
                return true;
    return false;
}

static int find_join(const struct program *p, int i)
{
    const struct step *s = &p->step[i];
    int join = i + 1;
    while (join < p->n_steps && p->step[join].phase == s->phase &&
           !op_in(p->step[join].plan->desc.kind, WEIGHT_GRADIENTS) &&
           !depends(p, &p->step[join], s))
        join++;
    return join;
}

/* Makes the values that step `s` uses stay in memory until its join. */
static void keep_values(struct program *p, const struct step *s)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        if (s->ref[r].space != SPACE_VALUE)
            continue;
        struct value *owner = &p->value[p->value[s->ref[r].index].storage];
        owner->last = owner->last > s->join - 1 ? owner->last : s->join - 1;
    }
}

void program_plan_wgrad_stream(struct program *p)
{
    p->workspace_bytes = 0;
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->step[i];
        size_t *workspace = &p->workspace_bytes, bytes = s->plan->workspace;
        if (s->phase == PHASE_BACKWARD && op_in(s->plan->desc.kind, WEIGHT_GRADIENTS))
            s->join = find_join(p, i);
        if (s->join == i + 1) /* no other step could run at the same time */
            s->join = 0;
        if (s->join > 0) {
            keep_values(p, s);
            workspace = &p->wgrad_workspace_bytes;
            if (bytes)
                s->ref[ROLE_WORKSPACE].space = SPACE_WGRAD_WORKSPACE;
        }
        *workspace = bytes > *workspace ? bytes : *workspace;
    }
}

enum status wgrad_stream_open(struct network *net)
{
    const struct backend *b = net->dev->backend;
    struct wgrad_stream *w = &net->wgrad;
    bool planned = false;
    for (int i = 0; i < net->n_programs; i++) {
        const struct program_config *c = &net->program[i]->config;
        planned = planned || (c->train && c->wgrad_stream);
    }
    if (!planned)
        return STATUS_OK;
    TRY(b->stream_open(net->dev, &w->stream));
    TRY(b->event_open(net->dev, &w->fork));
    return b->event_open(net->dev, &w->join);
}

void wgrad_stream_close(struct network *net)
{
    const struct backend *b = net->dev->backend;
    struct wgrad_stream *w = &net->wgrad;
    b->event_close(w->fork);
    b->event_close(w->join);
    b->stream_close(w->stream);
}

enum status wgrad_stream_run(struct program *p, int i)
{
    struct network *net = p->net;
    const struct backend *b = net->dev->backend;
    struct wgrad_stream *w = &net->wgrad;
    TRY(b->event_record(w->fork, net->stream));
    TRY(b->stream_wait(w->stream, w->fork));
    TRY(op_execute(p->step[i].plan, p->step[i].arg, w->stream));
    return b->event_record(w->join, w->stream);
}

enum status wgrad_stream_join(struct network *net)
{
    return net->dev->backend->stream_wait(net->stream, net->wgrad.join);
}

bool network_has_wgrad_stream(const struct network *net)
{
    return net->wgrad.stream != NULL;
}

void network_use_wgrad_stream(struct network *net, bool use)
{
    net->wgrad.used = use && net->wgrad.stream;
}
