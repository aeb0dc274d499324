/* Gathers the results of nodes. */
#include "accept/fleet_input.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

/* Sets the key "check/metric" to `value`, and takes over the caller's reference to `value`. */
static enum status set(json_t *object, const char *check, const char *metric, json_t *value)
{
    char key[NODE_METRIC_MAX];
    snprintf(key, sizeof key, "%s/%s", check, metric);
    return json_put(object, key, value);
}

static enum status set_check(const struct fleet_input *in, json_t *node,
                             const struct accept_result *check)
{
    char text[NOISE_TEXT_MAX];
    int code = check->verdict == VERDICT_FAIL      ? status_exit_code(STATUS_MISMATCH)
               : check->verdict == VERDICT_MISSING ? status_exit_code(STATUS_DATA)
                                                   : 0;
    bool disturbed = host_noise_judge(&check->noise, text);
    if (disturbed)
        TRY(set(in->why, json_text_at(node, "node"), check->name,
                json_sprintf("check '%s' was disturbed: %s; repeat on an idle node", check->name,
                             text)));
    TRY(set(node, check->name, "return_code", json_integer(code)));
    for (int i = 0; i < check->n_metrics; i++) {
        const struct accept_metric *m = &check->metric[i];
        if (m->text)
            continue;
        TRY(set(node, check->name, m->name,
                json_finite(disturbed && accept_is_speed(m) ? NAN : accept_metric_median(m))));
        TRY(set(in->better, check->name, m->name, json_integer(m->better)));
    }
    return STATUS_OK;
}

static enum status open_lists(struct fleet_input *in)
{
    json_t **list[] = {&in->better, &in->why, &in->places, &in->hosts};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!*list[i])
            TRY(json_new(list[i], "{}"));
    return STATUS_OK;
}

/* Remarks on a version of the program that is not the first node's, and on a host of several
 * nodes. */
static enum status add_remarks(struct fleet_input *in, const struct accept_report *r,
                               const char *name)
{
    const char *other = json_text_at(in->hosts, r->node);
    if (!*in->version)
        strcpy(in->version, r->version);
    if (strcmp(in->version, r->version) != 0)
        TRY(words_add(&in->remarks, "'%s' was measured by ampscale %s, other nodes by %s", name,
                      r->version, in->version));
    if (!*other)
        return json_put(in->hosts, r->node, json_string(name));
    return words_add(&in->remarks,
                     "'%s' and '%s' were measured on hosts named '%s': ranks on one host share its "
                     "hardware; --name names hosts apart",
                     other, name, r->node);
}

enum status fleet_input_report(struct fleet_input *in, const struct accept_report *r,
                               const char *name, const char *from)
{
    if (*in->spec && strcmp(in->spec, r->spec) != 0)
        return status_fail(STATUS_DATA,
                           "'%s' holds results of the spec '%s', but other folders hold results of "
                           "'%s'; judge the nodes of each spec separately",
                           from, r->spec, in->spec);
    snprintf(in->spec, sizeof in->spec, "%s", r->spec);
    if (r->level > in->level)
        in->level = r->level;
    json_t *node = NULL;
    enum status st;
    CHECK(open_lists(in));
    CHECK(json_new(&node, "{s:s, s:s}", "node", name, "hardware", r->device));
    for (int i = 0; i < r->n_checks; i++)
        CHECK(set_check(in, node, &r->check[i]));
    CHECK(nodes_add(&in->nodes, node));
    CHECK(json_put(in->places, name, json_string(from)));
    CHECK(add_remarks(in, r, name));
done:
    json_decref(node);
    return st;
}

/* Adds the report in `dir` as the node `name`. If `name` is NULL, uses the host's name instead. */
static enum status add_node(struct fleet_input *in, const char *dir, const char *name)
{
    char spec[ACCEPT_PATH_SIZE], why[ACCEPT_REASON_SIZE];
    struct accept_report r;
    TRY(path_format(spec, sizeof spec, "%s/spec.json", dir));
    enum status st = accept_report_load(dir, &r);
    if (st == STATUS_DATA || st == STATUS_IO) {
        const char *last = strrchr(dir, '/');
        snprintf(why, sizeof why, "its results cannot be read: %s", status_message());
        fprintf(stderr, "ampscale: node '%s' is skipped: %s\n", dir, why);
        return fleet_input_unfinished(in, name ? name : last && last[1] ? last + 1 : dir, why);
    }
    TRY(st);
    const char *other = json_text_at(in->places, name ? name : r.node);
    if (*other)
        st = status_fail(STATUS_DATA,
                         "'%s' and '%s' are both results of a node '%s'; give the folder that "
                         "holds them, to use the folders' names, or measure with --name",
                         other, dir, name ? name : r.node);
    else
        st = status_context(fleet_input_report(in, &r, name ? name : r.node, dir), "'%s'", dir);
    accept_report_free(&r);
    if (st == STATUS_OK && !*in->spec_file && path_exists(spec))
        memcpy(in->spec_file, spec, sizeof spec);
    return st;
}

enum status fleet_input_unfinished(struct fleet_input *in, const char *name, const char *why)
{
    json_t *node;
    TRY(open_lists(in));
    if (why)
        TRY(json_put(in->why, name, text_json(why)));
    TRY(json_new(&node, "{s:s}", "node", name));
    enum status st = nodes_add(&in->nodes, node);
    json_decref(node);
    return st;
}

/* Adds the nodes that have folders in `dir`; increments *found for each. */
static enum status add_folders(struct fleet_input *in, const char *dir, int *found)
{
    char path[ACCEPT_PATH_SIZE];
    struct words name = {0};
    enum status st;
    CHECK(dir_list(dir, "", &name));
    for (int i = 0; i < name.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, name.v[i]));
        if (dir_has(path, ACCEPT_FILE))
            CHECK(add_node(in, path, name.v[i]));
        else if (dir_has(path, "spec.json"))
            CHECK(fleet_input_unfinished(in, name.v[i], NULL));
        else
            continue;
        ++*found;
    }
done:
    words_free(&name);
    return st;
}

enum status fleet_input_add(struct fleet_input *in, const char *path)
{
    char file[ACCEPT_PATH_SIZE];
    int found = 0;
    if (!path_is_dir(path))
        return nodes_read(path, &in->nodes);
    if (dir_has(path, ACCEPT_FILE))
        return add_node(in, path, NULL);
    TRY(add_folders(in, path, &found));
    if (found > 0)
        return STATUS_OK;
    TRY(path_format(file, sizeof file, "%s/%s", path, FLEET_SUMMARY));
    if (!path_exists(file))
        return status_fail(STATUS_DATA, "no results of nodes in '%s': it has neither %s nor %s",
                           path, ACCEPT_FILE, FLEET_SUMMARY);
    return nodes_read(file, &in->nodes);
}

void fleet_input_free(struct fleet_input *in)
{
    nodes_free(&in->nodes);
    json_decref(in->better);
    json_decref(in->why);
    json_decref(in->places);
    words_free(&in->remarks);
    json_decref(in->hosts);
    *in = (struct fleet_input){0};
}

enum status fleet_input_write(const struct fleet_input *in, const char *path)
{
    json_t *nodes, *o;
    enum status st;
    CHECK(json_new(&nodes, "{}"));
    for (int i = 0; i < in->nodes.n; i++) {
        const struct node_row *row = &in->nodes.node[i];
        CHECK(json_new(&o, "{s:s}", "node", row->name));
        CHECK(json_put(nodes, row->name, o));
        if (*row->hardware)
            CHECK(json_put(o, "hardware", json_string(row->hardware)));
        for (int k = 0; k < row->n; k++)
            CHECK(json_put(o, row->value[k].metric, json_finite(row->value[k].value)));
    }
    st = nodes_write(nodes, path);
done:
    json_decref(nodes);
    return st;
}
