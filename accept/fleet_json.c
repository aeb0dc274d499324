/* Fleets as JSON. */
#include "accept/fleet_report.h"

#include <math.h>

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *counts_json(const int count[ACCEPT_VERDICTS])
{
    json_t *o = json_object();
    for (int v = 0; o && v < ACCEPT_VERDICTS; v++)
        json_object_set_new(o, accept_verdict_str((enum accept_verdict)v), json_integer(count[v]));
    return o;
}

static json_t *groups_json(const struct fleet_sample *s)
{
    if (!s->split)
        return json_null();
    return json_pack("[{s:f, s:I}, {s:f, s:I}]", "median", s->low, "nodes", (json_int_t)s->n_low,
                     "median", s->high, "nodes", (json_int_t)s->n_high);
}

static json_t *metric_json(const struct fleet_metric *m)
{
    const struct fleet_sample *s = &m->sample;
    bool judged = s->n >= FLEET_LEAST;
    return json_pack("{s:s, s:i, s:s, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "name", m->name,
                     "hardware", m->group, "better", accept_better_str(m->better), "n",
                     (json_int_t)s->n, "missing", m->missing, "median",
                     real(judged ? s->median : NAN), "spread", real(judged ? s->scatter : NAN),
                     "reference", real(judged ? s->reference : NAN), "fail",
                     real(judged ? s->bounds.fail : NAN), "warn",
                     real(judged ? s->bounds.warn : NAN), "groups", groups_json(s));
}

static json_t *finding_json(const struct fleet_finding *x)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:s}", "metric", x->metric, "verdict",
                     accept_verdict_str(x->verdict), "value", real(x->value), "reference",
                     real(x->reference), "reason", x->reason);
}

static json_t *node_json(const struct fleet_node *node)
{
    json_t *list = json_array();
    for (int i = 0; list && i < node->n; i++)
        if (json_array_append_new(list, finding_json(&node->finding[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return json_pack("{s:s, s:o, s:s, s:o, s:o}", "name", node->name, "hardware",
                     node->group < 0 ? json_null() : json_integer(node->group), "verdict",
                     accept_verdict_str(node->verdict), "counts", counts_json(node->count),
                     "findings", list);
}

json_t *fleet_json(const struct fleet *f, bool strict)
{
    json_t *hardware = json_array(), *metrics = json_array(), *nodes = json_array();
    bool ok = hardware && metrics && nodes;
    for (int i = 0; ok && i < f->n_groups; i++)
        ok = json_array_append_new(hardware, json_pack("{s:s, s:i}", "name", f->group[i].hardware,
                                                       "nodes", f->group[i].n)) == 0;
    for (int i = 0; ok && i < f->n_metrics; i++)
        ok = json_array_append_new(metrics, metric_json(&f->metric[i])) == 0;
    for (int i = 0; ok && i < f->n_nodes; i++)
        ok = json_array_append_new(nodes, node_json(&f->node[i])) == 0;
    if (!ok) {
        json_decref(hardware);
        json_decref(metrics);
        json_decref(nodes);
        return NULL;
    }
    return json_pack("{s:s, s:i, s:b, s:o, s:o, s:o, s:o}", "record", "fleet", "schema",
                     FLEET_SCHEMA, "passed", fleet_exit_code(f, strict) == 0, "counts",
                     counts_json(f->count), "hardware", hardware, "metrics", metrics, "nodes",
                     nodes);
}
