/* Converts the results of a fleet to JSON. */
#include "accept/fleet_report.h"

#include "base/json.h"

#include <math.h>

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
                     json_finite(judged ? s->median : NAN), "spread",
                     json_finite(judged ? s->scatter : NAN), "reference",
                     json_finite(judged ? s->reference : NAN), "fail",
                     json_finite(judged ? s->bounds.fail : NAN), "warn",
                     json_finite(judged ? s->bounds.warn : NAN), "groups", groups_json(s));
}

static json_t *finding_json(const struct fleet_finding *x)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:s}", "metric", x->metric, "verdict",
                     verdict_str(x->verdict), "value", json_finite(x->value), "reference",
                     json_finite(x->reference), "reason", x->reason);
}

static json_t *node_json(const struct fleet_node *node)
{
    json_t *list = json_array();
    for (int i = 0; i < node->n; i++)
        json_array_append_new(list, finding_json(&node->finding[i]));
    return json_pack("{s:s, s:o, s:s, s:o, s:o}", "name", node->name, "hardware",
                     node->group < 0 ? json_null() : json_integer(node->group), "verdict",
                     verdict_str(node->verdict), "counts", verdict_counts_json(node->count),
                     "findings", json_whole(list, node->n));
}

json_t *fleet_json(const struct fleet *f, bool strict)
{
    json_t *hardware = json_array(), *metrics = json_array(), *nodes = json_array();
    json_t *remarks = json_array();
    for (int i = 0; i < f->n_groups; i++)
        json_array_append_new(hardware, json_pack("{s:s, s:i}", "name", f->group[i].hardware,
                                                  "nodes", f->group[i].n));
    for (int i = 0; i < f->n_metrics; i++)
        json_array_append_new(metrics, metric_json(&f->metric[i]));
    for (int i = 0; i < f->n_nodes; i++)
        json_array_append_new(nodes, node_json(&f->node[i]));
    for (int i = 0; f->remarks && i < f->remarks->n; i++)
        json_array_append_new(remarks, text_json(f->remarks->v[i]));
    return json_pack("{s:s, s:i, s:b, s:o, s:o, s:o, s:o, s:o}", "record", "fleet", "schema",
                     FLEET_SCHEMA, "passed", verdict_exit_code(f->count, strict) == 0, "counts",
                     verdict_counts_json(f->count), "hardware", json_whole(hardware, f->n_groups),
                     "metrics", json_whole(metrics, f->n_metrics), "remarks", remarks, "nodes",
                     json_whole(nodes, f->n_nodes));
}
