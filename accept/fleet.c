/* Judging the nodes of a fleet. */
#include "accept/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is under way. Names of metrics are those of `nodes` and of the spec. */
struct judging {
    const struct nodes *nodes;
    const struct fleet_config *config;
    struct fleet *fleet;
    const char **name; /* of the group's metrics, ascending, each once */
    int n_names, capacity;
    char **wanted; /* (n_wanted) "check/metric" that the spec bounds by name */
    int n_wanted;
    double *value; /* (nodes) of one metric, without gaps */
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

static enum status find(struct fleet_node *node, const char *metric, enum accept_verdict verdict,
                        double value, double reference, struct fleet_finding **out)
{
    if (node->n == node->capacity) {
        int capacity = node->capacity ? 2 * node->capacity : 4;
        struct fleet_finding *more = realloc(node->finding, (size_t)capacity * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for what node '%s' lacks", node->name);
        node->finding = more;
        node->capacity = capacity;
    }
    struct fleet_finding *f = &node->finding[node->n++];
    *f = (struct fleet_finding){.verdict = verdict, .value = value, .reference = reference};
    snprintf(f->metric, sizeof f->metric, "%s", metric);
    node->count[verdict] += *metric != '\0';
    if (verdict > node->verdict)
        node->verdict = verdict;
    *out = f;
    return STATUS_OK;
}

static enum status find_whole(struct fleet_node *node, const char *why)
{
    struct fleet_finding *f;
    TRY(find(node, "", ACCEPT_MISSING, NAN, NAN, &f));
    snprintf(f->reason, sizeof f->reason, "%s", why);
    return STATUS_OK;
}

static enum status find_missing(struct fleet_node *node, const struct fleet_metric *m, int of)
{
    struct fleet_finding *f;
    TRY(find(node, m->name, ACCEPT_MISSING, NAN, m->sample.n ? m->sample.reference : NAN, &f));
    snprintf(f->reason, sizeof f->reason, "not measured; %d of %d nodes have it", of - m->missing,
             of);
    return STATUS_OK;
}

static enum status find_alone(struct fleet_node *node, const struct fleet_metric *m, double value)
{
    struct fleet_finding *f;
    TRY(find(node, m->name, ACCEPT_MISSING, value, NAN, &f));
    snprintf(
        f->reason, sizeof f->reason,
        "only %lld node%s of this hardware ha%s it, and %d are needed to hold them against each "
        "other",
        (long long)m->sample.n, m->sample.n == 1 ? "" : "s", m->sample.n == 1 ? "s" : "ve",
        FLEET_LEAST);
    return STATUS_OK;
}

static enum status find_apart(struct fleet_node *node, const struct fleet_metric *m,
                              enum accept_verdict verdict, double value, double loss)
{
    const struct fleet_sample *s = &m->sample;
    struct fleet_finding *f;
    TRY(find(node, m->name, verdict, value, s->reference, &f));
    const char *way = m->better == ACCEPT_EVEN ? "away from"
                      : loss < 0               ? "better than"
                                               : "worse than";
    double bound = loss > s->bounds.fail || loss < 0 ? s->bounds.fail : s->bounds.warn;
    snprintf(f->reason, sizeof f->reason,
             "%.1f %% %s the %s of %lld nodes, %.6g; the limit is %.1f %%", 100 * fabs(loss), way,
             s->split ? "better group's median" : "median",
             (long long)(s->split ? (s->reference == s->high ? s->n_high : s->n_low) : s->n),
             s->reference, 100 * bound);
    return STATUS_OK;
}

static enum status find_code(struct fleet_node *node, const char *metric, double value)
{
    struct fleet_finding *f;
    bool missing = isnan(value) || value == status_exit_code(STATUS_DATA);
    if (value == 0) {
        node->count[ACCEPT_PASS]++;
        return STATUS_OK;
    }
    TRY(find(node, metric, missing ? ACCEPT_MISSING : ACCEPT_FAIL, value, 0, &f));
    if (missing)
        snprintf(f->reason, sizeof f->reason, "was not measured on the node");
    else
        snprintf(f->reason, sizeof f->reason,
                 "ended with %g on the node, whose own report says why", value);
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

/* The bounds of a metric; false: it is not held against that of other nodes. */
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

static enum accept_better better_of(const struct fleet_config *c, const char *metric)
{
    const json_t *told = c->better ? json_object_get(c->better, metric) : NULL;
    return told ? (enum accept_better)json_integer_value(told) : fleet_better(metric);
}

/* Whether a node of the group can have a value, and which: NAN where it has none. */
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
    if (!value_of(j, i, m->group, m->name, &value))
        return STATUS_OK;
    if (isnan(value)) {
        if (!may_lack)
            return find_missing(node, m, j->fleet->group[m->group].n);
        node->count[ACCEPT_SKIP]++;
        return STATUS_OK;
    }
    if (m->sample.n < FLEET_LEAST)
        return find_alone(node, m, value);
    enum accept_verdict verdict = fleet_verdict(&m->sample, m->better, value, &loss);
    if (verdict != ACCEPT_PASS)
        return find_apart(node, m, verdict, value, loss);
    node->count[ACCEPT_PASS]++;
    return STATUS_OK;
}

static enum status add_metric(struct fleet *f, const struct fleet_metric *m)
{
    if (f->n_metrics == f->capacity) {
        int capacity = f->capacity ? 2 * f->capacity : 32;
        struct fleet_metric *more = realloc(f->metric, (size_t)capacity * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for %d metrics", capacity);
        f->metric = more;
        f->capacity = capacity;
    }
    f->metric[f->n_metrics++] = *m;
    return STATUS_OK;
}

static enum status judge_metric(struct judging *j, int group, const char *name)
{
    struct fleet_metric m = {.group = group, .better = better_of(j->config, name)};
    struct fleet_bounds bounds;
    bool may_lack;
    double value;
    if (is_code(name)) {
        for (int i = 0; i < j->nodes->n; i++)
            if (value_of(j, i, group, name, &value))
                TRY(find_code(&j->fleet->node[i], name, value));
        return STATUS_OK;
    }
    if (!bounds_of(j->config, name, &bounds, &may_lack))
        return STATUS_OK;
    snprintf(m.name, sizeof m.name, "%s", name);
    TRY(sample_metric(j, &m, bounds));
    TRY(add_metric(j->fleet, &m));
    for (int i = 0; i < j->nodes->n; i++)
        TRY(judge_value(j, &m, may_lack, i));
    return STATUS_OK;
}

/* --- groups --- */

static enum status add_name(struct judging *j, const char *name)
{
    if (j->n_names == j->capacity) {
        int capacity = j->capacity ? 2 * j->capacity : 256;
        const char **more = realloc(j->name, (size_t)capacity * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for the names of metrics");
        j->name = more;
        j->capacity = capacity;
    }
    j->name[j->n_names++] = name;
    return STATUS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the names so far and keeps each once. */
static void names_unite(struct judging *j)
{
    int kept = 0;
    if (j->n_names > 0)
        qsort(j->name, (size_t)j->n_names, sizeof *j->name, by_name);
    for (int i = 0; i < j->n_names; i++)
        if (kept == 0 || strcmp(j->name[kept - 1], j->name[i]) != 0)
            j->name[kept++] = j->name[i];
    j->n_names = kept;
}

static bool is_bounded(const struct accept_limit *l)
{
    return !strpbrk(l->metric, "*?") && (!isnan(l->fleet_within) || !isnan(l->fleet_warn_within));
}

/* What the spec wants to be there on every node, up to the level. */
static enum status list_wanted(struct judging *j)
{
    const struct accept_spec *spec = j->config->spec;
    for (int i = 0; spec && i < spec->n_checks; i++) {
        const struct accept_check *c = &spec->check[i];
        char **more = realloc(j->wanted, (size_t)(j->n_wanted + c->n_limits + 1) * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for the spec's metrics");
        j->wanted = more;
        for (int k = 0; c->level <= j->config->level && k < c->n_limits; k++) {
            if (!is_bounded(&c->limit[k]))
                continue;
            if (asprintf(&j->wanted[j->n_wanted], "%s/%s", c->name, c->limit[k].metric) < 0)
                return status_fail(STATUS_OOM, "no memory for the spec's metrics");
            j->n_wanted++;
        }
    }
    return STATUS_OK;
}

static enum status judge_group(struct judging *j, int group)
{
    j->n_names = 0;
    for (int k = 0; k < j->n_wanted; k++)
        TRY(add_name(j, j->wanted[k]));
    for (int i = 0; i < j->nodes->n; i++) {
        const struct node_row *node = &j->nodes->node[i];
        if (j->fleet->node[i].group != group)
            continue;
        for (int k = 0; k < node->n; k++)
            TRY(add_name(j, node->value[k].metric));
        names_unite(j); /* of nodes alike, so that memory holds those of two at most */
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
    f->group = calloc((size_t)nodes->n + 1, sizeof *f->group);
    if (!f->group)
        return status_fail(STATUS_OOM, "no memory for %d nodes", nodes->n);
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
    f->node = calloc((size_t)nodes->n + (size_t)c->n_expected + 1, sizeof *f->node);
    if (!f->node)
        return status_fail(STATUS_OOM, "no memory for %d nodes", nodes->n);
    for (int i = 0; i < nodes->n; i++) {
        struct fleet_node *node = &f->node[f->n_nodes++];
        strcpy(node->name, nodes->node[i].name);
        node->group = nodes->node[i].n > 0 ? group_of(f, nodes->node[i].hardware) : -1;
        if (node->group < 0)
            TRY(find_whole(node, "nothing was measured: its battery has not ended"));
    }
    for (int i = 0; i < c->n_expected; i++) {
        if (is_there(f, c->expected[i]))
            continue;
        struct fleet_node *node = &f->node[f->n_nodes++];
        snprintf(node->name, sizeof node->name, "%s", c->expected[i]);
        node->group = -1;
        TRY(find_whole(node, "there are no results of this node"));
    }
    return STATUS_OK;
}

enum status fleet_judge(const struct nodes *nodes, const struct fleet_config *config,
                        struct fleet *fleet)
{
    struct judging j = {.nodes = nodes, .config = config, .fleet = fleet};
    enum status st = STATUS_OK;
    *fleet = (struct fleet){0};
    j.value = calloc((size_t)nodes->n + 1, sizeof *j.value);
    if (!j.value) {
        st = status_fail(STATUS_OOM, "no memory for %d nodes", nodes->n);
        goto done;
    }
    CHECK(make_groups(nodes, fleet));
    CHECK(make_nodes(nodes, config, fleet));
    CHECK(list_wanted(&j));
    for (int g = 0; g < fleet->n_groups; g++)
        CHECK(judge_group(&j, g));
    for (int i = 0; i < fleet->n_nodes; i++) {
        struct fleet_node *node = &fleet->node[i];
        if (node->n == 0 && node->count[ACCEPT_PASS] == 0)
            CHECK(find_whole(node, "nothing passed"));
        fleet->count[node->verdict]++;
    }
done:
    for (int k = 0; k < j.n_wanted; k++)
        free(j.wanted[k]);
    free(j.wanted);
    free(j.name);
    free(j.value);
    if (st != STATUS_OK)
        fleet_free(fleet);
    return st;
}

int fleet_exit_code(const struct fleet *fleet, bool strict)
{
    if (fleet->count[ACCEPT_FAIL] > 0 || (strict && fleet->count[ACCEPT_WARN] > 0))
        return status_exit_code(STATUS_MISMATCH);
    if (fleet->count[ACCEPT_MISSING] > 0 || fleet->n_nodes == 0)
        return status_exit_code(STATUS_DATA);
    return 0;
}
