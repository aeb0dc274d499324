/* Running a program: operation by operation, or as graphs that were recorded once.
 *
 * A program is cut into segments, runs of operations that nothing comes between: a phase each, and
 * the backward phase where a caller is notified of gradients. A segment is executed plainly the
 * first time, so that what libraries set up late is set up, recorded the second time, and launched
 * from then on. Whatever changes from step to step lies in device memory, so that a recorded
 * segment stays right.
 *
 * Where recording or launching fails, nothing has been executed: the network keeps the reason and
 * executes all operations plainly from there on, with the same bits. */
#include "model/program.h"

#include <stdio.h>
#include <stdlib.h>

/* Weights that came from outside, not from the optimizer, into the form that the passes read. */
static enum status refresh_copies(struct network *net)
{
    net->copies_stale = false;
    for (int i = 0; i < net->n_segments; i++) {
        size_t offset = (size_t)net->segment[i].begin * sizeof(float);
        if (!net->refresh[i])
            continue;
        void *arg[ROLE_COUNT] = {[ROLE_X] = net->weights + offset,
                                 [ROLE_Y] = net->copies + network_copy_bytes(net, offset),
                                 [ROLE_WORKSPACE] = net->arena}; /* a step has not begun */
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
    for (int i = segment->first; i < segment->end; i++)
        TRY(program_run_step(p, i));
    return STATUS_OK;
}

/* After an operation that failed ending fails too, in words that say nothing of it. */
static enum status record_steps(struct program *p, struct graph_segment *segment)
{
    const struct backend *b = p->net->dev->backend;
    struct first_failure first = {0};
    TRY(b->capture_begin(p->net->stream));
    first_failure_keep(&first, run_steps(p, segment));
    first_failure_keep(&first, b->capture_end(p->net->stream, &segment->graph));
    if (first.status == STATUS_OK)
        return STATUS_OK;
    if (segment->graph)
        b->capture_free(segment->graph);
    segment->graph = NULL;
    return first_failure_tell(&first);
}

static enum status launch(struct program *p, struct graph_segment *segment)
{
    if (!segment->graph)
        TRY(record_steps(p, segment));
    return p->net->dev->backend->capture_launch(segment->graph, p->net->stream);
}

/* Failures of the device or its libraries, which plain execution may do without. Any other is the
 * program's own. */
static bool is_of_graphs(enum status st)
{
    return st == STATUS_LIBRARY || st == STATUS_UNSUPPORTED || st == STATUS_OOM;
}

static enum status run_graph_segment(struct program *p, struct graph_segment *segment)
{
    struct network *net = p->net;
    if (!p->config.graphs || *net->graphs_lost || !net->dev->backend->capture_begin ||
        !segment->warm) {
        segment->warm = true;
        return run_steps(p, segment);
    }
    enum status st = launch(p, segment);
    if (st == STATUS_OK)
        return STATUS_OK;
    st = status_context(st, "the %s phase as a graph", phase_str(segment->phase));
    if (!is_of_graphs(st))
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

/* Tells of each layer's gradients by themselves. */
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

/* A segment ends where its phase does, and where gradients up to the next of `end` are complete. */
static void cut(struct program *p, const int64_t *end, int n)
{
    int64_t told = 0;
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
        segment->grad_begin = told;
        segment->grad_end = told = s->grad_end;
        while (next < n && end[next] <= told)
            next++;
    }
}

enum status program_cut(struct program *p)
{
    p->graph_segment = calloc((size_t)p->n_steps + 1, sizeof *p->graph_segment);
    if (!p->graph_segment)
        return status_fail(STATUS_OOM, "no memory for a program");
    cut(p, NULL, 0);
    return STATUS_OK;
}

static void free_graphs(struct program *p)
{
    for (int i = 0; i < p->n_graph_segments; i++) {
        if (p->graph_segment[i].graph)
            p->net->dev->backend->capture_free(p->graph_segment[i].graph);
        p->graph_segment[i].graph = NULL;
    }
}

const char *network_graphs_lost(const struct network *net)
{
    return *net->graphs_lost ? net->graphs_lost : NULL;
}

/* Graphs that were launched before may be on their way: they are freed with the program. */
void network_drop_graphs(struct network *net, const char *why)
{
    snprintf(net->graphs_lost, sizeof net->graphs_lost, "%s", why);
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
