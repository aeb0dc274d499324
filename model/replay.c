/* Runs a program: operation by operation, or as graphs that were recorded once.
 *
 * A program is cut into segments of operations that run without interruption. Each phase is one
 * segment. The backward phase is also cut where the program notifies a caller of gradients. The
 * first time, a segment is executed without a graph, because libraries initialise themselves
 * lazily, and also on each stream. The second time it is recorded, and from then on the graph is
 * launched. A recorded segment stays valid, because all values that change from step to step are in
 * device memory.
 *
 * If recording or launching fails, none of the segment's operations has been executed. The network
 * then stores the reason, and from then on executes all operations one by one. The results have the
 * same bits. */
#include "base/array.h"
#include "model/program.h"

#include <stdio.h>
#include <stdlib.h>

/* Computes the rounded copies of the weights again, after the caller has written weights. (The
 * optimizer updates the copies itself.) */
static enum status refresh_copies(struct network *net)
{
    net->copies_stale = false;
    for (int i = 0; i < net->n_segments; i++) {
        size_t offset = (size_t)net->segment[i].begin * sizeof(float);
        if (!net->refresh[i])
            continue;
        /* The workspace is the arena, which holds no values, because no step has begun. */
        void *arg[ROLE_COUNT] = {[ROLE_X] = net->weights + offset,
                                 [ROLE_Y] = net->copies + network_copy_bytes(net, offset),
                                 [ROLE_WORKSPACE] = net->arena};
        TRY(op_execute(net->refresh[i], arg, net->stream));
    }
    return STATUS_OK;
}

enum status program_run_step(struct program *p, int i)
{
    struct step *s = &p->step[i];
    if (p->net->copies_stale)
        TRY(refresh_copies(p->net));
    enum status st = op_execute(s->plan, s->arg, p->net->stream);
    return st == STATUS_OK ? st : status_context(st, "layer '%s'", s->layer);
}

static enum status run_steps(struct program *p, const struct graph_segment *segment)
{
    int open = -1; /* index of the step that runs on the stream of weight gradients; -1: none */
    for (int i = segment->first; i < segment->end; i++) {
        bool aside = p->net->wgrad.used && p->step[i].join > 0;
        if (open >= 0 && i == p->step[open].join) {
            TRY(wgrad_stream_join(p->net));
            open = -1;
        }
        if (aside)
            open = i;
        enum status st = aside ? wgrad_stream_run(p, i) : program_run_step(p, i);
        if (st != STATUS_OK)
            return aside ? status_context(st, "layer '%s'", p->step[i].layer) : st;
    }
    return open < 0 ? STATUS_OK : wgrad_stream_join(p->net);
}

/* Records a segment as a graph. Returns the first failure: after a failed operation, capture_end
 * fails too, but its message does not give the cause. */
static enum status record_steps(struct program *p, struct graph_segment *segment,
                                struct graph_exec **graph)
{
    const struct backend *b = p->net->dev->backend;
    struct first_failure first = {0};
    TRY(b->capture_begin(p->net->stream));
    first_failure_keep(&first, run_steps(p, segment));
    first_failure_keep(&first, b->capture_end(p->net->stream, graph));
    if (first.status == STATUS_OK)
        return STATUS_OK;
    if (*graph)
        b->capture_free(*graph);
    *graph = NULL;
    return first_failure_return(&first);
}

static enum status run_graph_segment(struct program *p, struct graph_segment *segment)
{
    struct network *net = p->net;
    bool aside = net->wgrad.used && segment->phase == PHASE_BACKWARD;
    struct graph_exec **graph = &segment->graph[net->pdl][aside];
    bool *warm = &segment->warm[net->pdl][aside];
    if (!p->config.graphs || *net->graphs_lost || !net->dev->backend->capture_begin || !*warm) {
        *warm = true;
        return run_steps(p, segment);
    }
    enum status st = *graph ? STATUS_OK : record_steps(p, segment, graph);
    st = st == STATUS_OK ? net->dev->backend->capture_launch(*graph, net->stream) : st;
    if (st == STATUS_OK)
        return STATUS_OK;
    st = status_context(st, "the %s phase as a graph", phase_str(segment->phase));
    /* Recording and launching a graph can only cause failures of the device or its libraries. After
     * any other failure, executing the operations without a graph does not help. */
    if (st != STATUS_LIBRARY && st != STATUS_UNSUPPORTED && st != STATUS_OOM)
        return st;
    network_drop_graphs(net, status_message());
    st = run_steps(p, segment);
    return st == STATUS_OK ? st : status_context(st, "%s; then, without graphs", net->graphs_lost);
}

enum status program_run(struct program *p, enum phase phase)
{
    if (p->net->copies_stale)
        TRY(refresh_copies(p->net));
    for (int i = 0; i < p->n_graph_segments; i++)
        if (p->graph_segment[i].phase == phase)
            TRY(run_graph_segment(p, &p->graph_segment[i]));
    return STATUS_OK;
}

/* Calls `complete` for each layer's gradients separately. */
static enum status
backward_by_steps(struct program *p,
                  enum status (*complete)(void *context, int64_t begin, int64_t end), void *context)
{
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        if (s->phase != PHASE_BACKWARD)
            continue;
        TRY(program_run_step(p, i));
        if (s->grad_begin < s->grad_end)
            TRY(complete(context, s->grad_begin, s->grad_end));
    }
    return STATUS_OK;
}

enum status program_backward(struct program *p,
                             enum status (*complete)(void *context, int64_t begin, int64_t end),
                             void *context)
{
    if (!complete)
        return program_run(p, PHASE_BACKWARD);
    if (!p->announces)
        return backward_by_steps(p, complete, context);
    for (int i = 0; i < p->n_graph_segments; i++) {
        struct graph_segment *segment = &p->graph_segment[i];
        if (segment->phase != PHASE_BACKWARD)
            continue;
        TRY(run_graph_segment(p, segment));
        if (segment->grad_begin < segment->grad_end)
            TRY(complete(context, segment->grad_begin, segment->grad_end));
    }
    return STATUS_OK;
}

/* Cuts the program into segments. A segment ends where its phase ends. In the backward phase, for
 * each i, a segment also ends at the operation that completes the gradients up to end[i]. */
static void cut(struct program *p, const int64_t *end, int n)
{
    int64_t announced = 0;
    int next = 0;
    p->n_graph_segments = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->step[i];
        bool begins = p->n_graph_segments == 0 ||
                      p->graph_segment[p->n_graph_segments - 1].end_here ||
                      p->step[i - 1].phase != s->phase;
        if (begins)
            p->graph_segment[p->n_graph_segments++] =
                (struct graph_segment){.phase = s->phase, .first = i};
        struct graph_segment *segment = &p->graph_segment[p->n_graph_segments - 1];
        segment->end = i + 1;
        if (next == n || s->phase != PHASE_BACKWARD || s->grad_end < end[next])
            continue;
        segment->end_here = true;
        segment->grad_begin = announced;
        segment->grad_end = announced = s->grad_end;
        while (next < n && end[next] <= announced)
            next++;
    }
}

enum status program_cut(struct program *p)
{
    TRY(array_new(&p->graph_segment, p->n_steps));
    cut(p, NULL, 0);
    return STATUS_OK;
}

static void free_graphs(struct program *p)
{
    for (int i = 0; i < p->n_graph_segments; i++)
        for (int k = 0; k < 4; k++) {
            struct graph_exec **graph = &p->graph_segment[i].graph[k / 2][k % 2];
            if (*graph)
                p->net->dev->backend->capture_free(*graph);
            *graph = NULL;
        }
}

const char *network_graphs_lost(const struct network *net)
{
    return *net->graphs_lost ? net->graphs_lost : NULL;
}

/* Graphs are freed with the program, not here: a launched graph may still be running. */
void network_drop_graphs(struct network *net, const char *why)
{
    snprintf(net->graphs_lost, sizeof net->graphs_lost, "%s", why);
}

void network_restore_graphs(struct network *net)
{
    *net->graphs_lost = '\0';
}

void program_announce(struct program *p, const int64_t *end, int n)
{
    free_graphs(p);
    p->announces = true;
    cut(p, end, n);
}

void program_free_graph_segments(struct program *p)
{
    free_graphs(p);
    free(p->graph_segment);
}
