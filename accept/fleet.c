/* Judges the nodes of a fleet. */
#include "accept/fleet.h"
#include "base/array.h"
#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The state of fleet_judge. The names of metrics point into `nodes` and `wanted`. */
struct judging {
    const struct nodes *nodes;
    const struct fleet_config *config;
    struct fleet *fleet;
    const char **name; /* (n_names) the group's metrics, sorted, without duplicates */
    int n_names;
    struct words wanted; /* "check/metric", each with a limit in the spec */
    double *value;       /* (nodes) the known values of one metric */
};

void fleet_free(struct fleet *fleet)
{
    for (int i = 0; i < fleet->n_nodes; i++)
        free(fleet->node[i].finding);
    free(fleet->node);
    free(fleet->group);
    free(fleet->metric);
    *fleet = (struct fleet){0};
}

/* --- findings --- */

/* Adds a finding on a metric of a node, or on the whole node if `metric` is "". */
static enum status PRINTF_LIKE(6, 7)
    find(struct fleet_node *node, const char *metric, enum verdict verdict, double value,
         double reference, const char *fmt, ...)
{
    va_list args;
    TRY(array_reserve(&node->finding, node->n));
    struct fleet_finding *f = &node->finding[node->n++];
    *f = (struct fleet_finding){.verdict = verdict, .value = value, .reference = reference};
    snprintf(f->metric, sizeof f->metric, "%s", metric);
    va_start(args, fmt);
    vsnprintf(f->reason, sizeof f->reason, fmt, args);
    va_end(args);
    node->count[verdict] += *metric != '\0';
    if (verdict > node->verdict)
        node->verdict = verdict;
    return STATUS_OK;
}

static enum status find_apart(struct fleet_node *node, const struct fleet_metric *m,
                              enum verdict verdict, double value, double loss)
{
    const struct fleet_sample *s = &m->sample;
    const char *way = m->better == ACCEPT_EVEN ? "away from"
                      : loss < 0               ? "better than"
                                               : "worse than";
    double bound = loss > s->bounds.fail || loss < 0 ? s->bounds.fail : s->bounds.warn;
    int64_t n = !s->split ? s->n : s->reference == s->high ? s->n_high : s->n_low;
    return find(node, m->name, verdict, value, s->reference,
                "%.1f %% %s the %s of %lld nodes (%.6g); the limit is %.1f %%", 100 * fabs(loss),
                way, s->split ? "better group's median" : "median", (long long)n, s->reference,
                100 * bound);
}

/* Why a node has no value of "check/metric"; "": not known. */
static const char *why_of(const struct judging *j, const struct fleet_node *node,
                          const char *metric)
{
    char key[NODE_NAME_MAX + NODE_METRIC_MAX];
    snprintf(key, sizeof key, "%s/%.*s", node->name, (int)strcspn(metric, "/"), metric);
    return json_text_at(j->config->why, key);
}

/* Counts a metric without a value; adds a finding unless there is one of the same reason. */
static enum status find_why(struct fleet_node *node, const char *metric, double value,
                            const char *why)
{
    for (int i = 0; i < node->n; i++) {
        if (strcmp(node->finding[i].reason, why) != 0)
            continue;
        node->count[VERDICT_MISSING]++;
        return STATUS_OK;
    }
    return find(node, metric, VERDICT_MISSING, value, NAN, "%s", why);
}

static enum status find_code(const struct judging *j, struct fleet_node *node, const char *metric,
                             double value)
{
    const char *why = why_of(j, node, metric);
    if (isnan(value) || value == status_exit_code(STATUS_DATA))
        return find_why(node, metric, value, *why ? why : "not measured on the node");
    if (value != 0)
        return find(node, metric, VERDICT_FAIL, value, 0,
                    "exit code %g on the node; the node's own report gives the reason", value);
    node->count[VERDICT_PASS]++;
    return STATUS_OK;
}

/* --- metrics --- */

static bool is_code(const char *metric)
{
    const char *last = strrchr(metric, '/');
    const char *name = last ? last + 1 : metric;
    return strncmp(name, "return_code", 11) == 0 && (name[11] == '\0' || name[11] == ':');
}

/* The spec's limit for "check/metric"; NULL: none. */
static const struct accept_limit *limit_of(const struct accept_spec *spec, const char *metric)
{
    const char *slash = strchr(metric, '/');
    for (int i = 0; slash && i < spec->n_checks; i++) {
        const char *check = spec->check[i].name;
        if (strlen(check) == (size_t)(slash - metric) && strncmp(check, metric, strlen(check)) == 0)
            return accept_limit_for(&spec->check[i], slash + 1);
    }
    return NULL;
}

/* Sets the bounds of a metric. False: the metric is not compared between nodes. */
static bool bounds_of(const struct fleet_config *c, const char *metric, struct fleet_bounds *b,
                      bool *may_lack)
{
    *b = c->bounds;
    *may_lack = false;
    if (!c->spec)
        return true;
    const struct accept_limit *l = limit_of(c->spec, metric);
    if (!l || (isnan(l->fleet_within) && isnan(l->fleet_warn_within)))
        return false;
    *may_lack = l->may_lack;
    b->fail = isnan(l->fleet_within) ? INFINITY : l->fleet_within;
    b->warn = isnan(l->fleet_warn_within) ? b->fail : l->fleet_warn_within;
    return true;
}

/* Whether a node has results and is in the group. Sets *value to the node's value of the metric, or
 * to NAN if the node has no value. */
static bool value_of(const struct judging *j, int node, int group, const char *metric,
                     double *value)
{
    if (node >= j->nodes->n || j->fleet->node[node].group != group)
        return false;
    const struct node_value *v = node_find(&j->nodes->node[node], metric);
    *value = v ? v->value : NAN;
    return true;
}

static enum status sample_metric(struct judging *j, struct fleet_metric *m,
                                 struct fleet_bounds bounds)
{
    double value;
    int n = 0;
    for (int i = 0; i < j->nodes->n; i++) {
        if (!value_of(j, i, m->group, m->name, &value))
            continue;
        if (isnan(value))
            m->missing++;
        else
            j->value[n++] = value;
    }
    return n > 0 ? fleet_sample_of(j->value, n, m->better, bounds, &m->sample) : STATUS_OK;
}

static enum status judge_value(struct judging *j, const struct fleet_metric *m, bool may_lack,
                               int i)
{
    struct fleet_node *node = &j->fleet->node[i];
    double value, loss;
    const char *why = why_of(j, node, m->name);
    if (!value_of(j, i, m->group, m->name, &value))
        return STATUS_OK;
    if (isnan(value) && *why)
        return find_why(node, m->name, NAN, why);
    if (isnan(value) && !may_lack) {
        int of = j->fleet->group[m->group].n;
        return find(node, m->name, VERDICT_MISSING, NAN, m->sample.n ? m->sample.reference : NAN,
                    "not measured here; %d of %d nodes have a value", of - m->missing, of);
    }
    if (isnan(value)) {
        node->count[VERDICT_SKIP]++;
        return STATUS_OK;
    }
    if (m->sample.n < FLEET_LEAST)
        return find(node, m->name, VERDICT_MISSING, value, NAN,
                    "only %lld node%s of this hardware ha%s a value; a comparison needs %d",
                    (long long)m->sample.n, m->sample.n == 1 ? "" : "s",
                    m->sample.n == 1 ? "s" : "ve", FLEET_LEAST);
    enum verdict verdict = fleet_verdict(&m->sample, m->better, value, &loss);
    if (verdict != VERDICT_PASS)
        return find_apart(node, m, verdict, value, loss);
    node->count[VERDICT_PASS]++;
    return STATUS_OK;
}

static enum status judge_metric(struct judging *j, int group, const char *name)
{
    const json_t *better = json_object_get(j->config->better, name);
    struct fleet_metric m = {.group = group,
                             .better = better ? (enum accept_better)json_integer_value(better)
                                              : fleet_better(name)};
    struct fleet_bounds bounds;
    bool may_lack;
    double value;
    if (is_code(name)) {
        for (int i = 0; i < j->nodes->n; i++)
            if (value_of(j, i, group, name, &value))
                TRY(find_code(j, &j->fleet->node[i], name, value));
        return STATUS_OK;
    }
    if (!bounds_of(j->config, name, &bounds, &may_lack))
        return STATUS_OK;
    snprintf(m.name, sizeof m.name, "%s", name);
    TRY(sample_metric(j, &m, bounds));
    TRY(array_reserve(&j->fleet->metric, j->fleet->n_metrics));
    j->fleet->metric[j->fleet->n_metrics++] = m;
    for (int i = 0; i < j->nodes->n; i++)
        TRY(judge_value(j, &m, may_lack, i));
    return STATUS_OK;
}

/* --- groups --- */

static enum status add_name(struct judging *j, const char *name)
{
    TRY(array_reserve(&j->name, j->n_names));
    j->name[j->n_names++] = name;
    return STATUS_OK;
}

/* Sorts the names of metrics and removes duplicates. */
static void names_unite(struct judging *j)
{
    int kept = 0;
    if (j->n_names > 0)
        qsort(j->name, (size_t)j->n_names, sizeof *j->name, text_order);
    for (int i = 0; i < j->n_names; i++)
        if (kept == 0 || strcmp(j->name[kept - 1], j->name[i]) != 0)
            j->name[kept++] = j->name[i];
    j->n_names = kept;
}

/* Lists the metrics that the spec requires of every node. Skips checks above the configured
 * level. */
static enum status list_wanted(struct judging *j)
{
    const struct accept_spec *spec = j->config->spec;
    for (int i = 0; spec && i < spec->n_checks; i++) {
        const struct accept_check *c = &spec->check[i];
        for (int k = 0; c->level <= j->config->level && k < c->n_limits; k++) {
            const struct accept_limit *l = &c->limit[k];
            if (strpbrk(l->metric, "*?") || (isnan(l->fleet_within) && isnan(l->fleet_warn_within)))
                continue;
            TRY(words_add(&j->wanted, "%s/%s", c->name, l->metric));
        }
    }
    return STATUS_OK;
}

static enum status judge_group(struct judging *j, int group)
{
    j->n_names = 0;
    for (int k = 0; k < j->wanted.n; k++)
        TRY(add_name(j, j->wanted.v[k]));
    for (int i = 0; i < j->nodes->n; i++) {
        const struct node_row *node = &j->nodes->node[i];
        if (j->fleet->node[i].group != group)
            continue;
        for (int k = 0; k < node->n; k++)
            TRY(add_name(j, node->value[k].metric));
        names_unite(j); /* done after each node, so that memory holds the names of at most two
                         * nodes */
    }
    for (int k = 0; k < j->n_names; k++)
        TRY(judge_metric(j, group, j->name[k]));
    return STATUS_OK;
}

static int by_size(const void *a, const void *b)
{
    const struct fleet_group *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->hardware, y->hardware);
}

static int group_of(const struct fleet *f, const char *hardware)
{
    for (int g = 0; g < f->n_groups; g++)
        if (strcmp(f->group[g].hardware, hardware) == 0)
            return g;
    return -1;
}

static enum status make_groups(const struct nodes *nodes, struct fleet *f)
{
    TRY(array_new(&f->group, nodes->n));
    for (int i = 0; i < nodes->n; i++) {
        const char *hardware = nodes->node[i].hardware;
        int g = group_of(f, hardware);
        if (nodes->node[i].n == 0)
            continue;
        if (g < 0) {
            g = f->n_groups++;
            strcpy(f->group[g].hardware, hardware);
        }
        f->group[g].n++;
    }
    if (f->n_groups > 1)
        qsort(f->group, (size_t)f->n_groups, sizeof *f->group, by_size);
    return STATUS_OK;
}

/* --- nodes --- */

static bool is_there(const struct fleet *f, const char *name)
{
    for (int i = 0; i < f->n_nodes; i++)
        if (strcmp(f->node[i].name, name) == 0)
            return true;
    return false;
}

static enum status make_nodes(const struct nodes *nodes, const struct fleet_config *c,
                              struct fleet *f)
{
    TRY(array_new(&f->node, nodes->n + c->n_expected));
    for (int i = 0; i < nodes->n; i++) {
        struct fleet_node *node = &f->node[f->n_nodes++];
        strcpy(node->name, nodes->node[i].name);
        node->group = nodes->node[i].n > 0 ? group_of(f, nodes->node[i].hardware) : -1;
        const char *why = json_text_at(c->why, node->name);
        if (node->group < 0)
            TRY(find(node, "", VERDICT_MISSING, NAN, NAN, "%s",
                     *why ? why : "nothing was measured: the node's test suite has not ended"));
    }
    for (int i = 0; i < c->n_expected; i++) {
        if (is_there(f, c->expected[i]))
            continue;
        struct fleet_node *node = &f->node[f->n_nodes++];
        snprintf(node->name, sizeof node->name, "%s", c->expected[i]);
        node->group = -1;
        TRY(find(node, "", VERDICT_MISSING, NAN, NAN, "no results of this node were found"));
    }
    return STATUS_OK;
}

enum status fleet_judge(const struct nodes *nodes, const struct fleet_config *config,
                        struct fleet *fleet)
{
    struct judging j = {.nodes = nodes, .config = config, .fleet = fleet};
    enum status st = STATUS_OK;
    *fleet = (struct fleet){.remarks = config->remarks};
    CHECK(array_new(&j.value, nodes->n));
    CHECK(make_groups(nodes, fleet));
    CHECK(make_nodes(nodes, config, fleet));
    CHECK(list_wanted(&j));
    for (int g = 0; g < fleet->n_groups; g++)
        CHECK(judge_group(&j, g));
    for (int i = 0; i < fleet->n_nodes; i++) {
        struct fleet_node *node = &fleet->node[i];
        if (node->n == 0 && node->count[VERDICT_PASS] == 0)
            CHECK(find(node, "", VERDICT_MISSING, NAN, NAN, "no metric passed"));
        fleet->count[node->verdict]++;
    }
done:
    words_free(&j.wanted);
    free(j.name);
    free(j.value);
    if (st != STATUS_OK)
        fleet_free(fleet);
    return st;
}
