/* Gathering the results of nodes. */
#include "accept/jsonl.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDERS_MAX = NODES_MAX };

static int return_code(const struct accept_result *check)
{
    if (check->verdict == ACCEPT_FAIL)
        return status_exit_code(STATUS_MISMATCH);
    return check->verdict == ACCEPT_MISSING ? status_exit_code(STATUS_DATA) : 0;
}

/* Takes `value` over. */
static bool set(json_t *object, const char *check, const char *metric, json_t *value)
{
    char key[NODE_METRIC_MAX];
    snprintf(key, sizeof key, "%s/%s", check, metric);
    return json_object_set_new(object, key, value) == 0;
}

static bool set_check(json_t *node, json_t *better, const struct accept_result *check)
{
    bool ok = set(node, check->name, "return_code", json_integer(return_code(check)));
    for (int i = 0; ok && i < check->n_metrics; i++) {
        const struct accept_metric *m = &check->metric[i];
        double median = accept_metric_median(m);
        if (m->text)
            continue;
        ok = set(node, check->name, m->name, isfinite(median) ? json_real(median) : json_null()) &&
             set(better, check->name, m->name, json_integer(m->better));
    }
    return ok;
}

enum status fleet_input_report(struct fleet_input *in, const struct accept_report *r,
                               const char *name, const char *from)
{
    if (*in->spec && strcmp(in->spec, r->spec) != 0)
        return status_fail(STATUS_DATA,
                           "'%s' is of the spec '%s', and others are of '%s'; judge the nodes of "
                           "each spec alone",
                           from, r->spec, in->spec);
    snprintf(in->spec, sizeof in->spec, "%s", r->spec);
    if (r->level > in->level)
        in->level = r->level;
    if (!in->better)
        in->better = json_object();
    json_t *node = json_pack("{s:s, s:s}", "node", name, "hardware", r->device);
    bool ok = node && in->better;
    for (int i = 0; ok && i < r->n_checks; i++)
        ok = set_check(node, in->better, &r->check[i]);
    enum status st = ok ? nodes_add(&in->nodes, node)
                        : status_fail(STATUS_OOM, "no memory for the results in '%s'", from);
    json_decref(node);
    return st;
}

/* `name` NULL: the host's. */
static enum status add_node(struct fleet_input *in, const char *dir, const char *name)
{
    char spec[ACCEPT_PATH_SIZE];
    struct accept_report r;
    TRY(path_format(spec, sizeof spec, "%s/spec.json", dir));
    TRY(accept_report_load(dir, &r));
    enum status st = fleet_input_report(in, &r, name ? name : r.node, dir);
    accept_report_free(&r);
    if (st == STATUS_OK && !*in->spec_file && path_exists(spec))
        memcpy(in->spec_file, spec, sizeof spec);
    return st == STATUS_DATA ? status_context(st, "'%s'", dir) : st;
}

enum status fleet_input_unfinished(struct fleet_input *in, const char *name)
{
    json_t *node = json_pack("{s:s}", "node", name);
    enum status st = node ? nodes_add(&in->nodes, node)
                          : status_fail(STATUS_OOM, "no memory for node '%s'", name);
    json_decref(node);
    return st;
}

static bool has(const char *dir, const char *file)
{
    char path[ACCEPT_PATH_SIZE];
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    return n > 0 && (size_t)n < sizeof path && path_exists(path);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, ascending, but for hidden ones. */
static enum status list_folder(const char *dir, char ***name, int *n)
{
    struct dirent *entry;
    int capacity = 0;
    enum status st = STATUS_OK;
    DIR *d = opendir(dir);
    if (!d)
        return status_fail(STATUS_DATA, "cannot read the folder '%s': %s", dir, strerror(errno));
    while (st == STATUS_OK && (entry = readdir(d))) {
        if (entry->d_name[0] == '.')
            continue;
        if (*n == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            char **more = realloc(*name, (size_t)capacity * sizeof *more);
            if (!more) {
                st = status_fail(STATUS_OOM, "no memory for the folders in '%s'", dir);
                break;
            }
            *name = more;
        }
        (*name)[*n] = strdup(entry->d_name);
        if (!(*name)[*n])
            st = status_fail(STATUS_OOM, "no memory for the folders in '%s'", dir);
        else if (++*n == FOLDERS_MAX)
            st = status_fail(STATUS_DATA, "more than %d folders in '%s'", FOLDERS_MAX, dir);
    }
    closedir(d);
    if (*n > 1)
        qsort(*name, (size_t)*n, sizeof **name, compare_names);
    return st;
}

/* The nodes that have folders in `dir`; *found is how many. */
static enum status add_folders(struct fleet_input *in, const char *dir, int *found)
{
    char **name = NULL, path[ACCEPT_PATH_SIZE];
    int n = 0;
    enum status st;
    CHECK(list_folder(dir, &name, &n));
    for (int i = 0; i < n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, name[i]));
        if (has(path, ACCEPT_FILE))
            CHECK(add_node(in, path, name[i]));
        else if (has(path, "spec.json"))
            CHECK(fleet_input_unfinished(in, name[i]));
        else
            continue;
        ++*found;
    }
done:
    for (int i = 0; i < n; i++)
        free(name[i]);
    free(name);
    return st;
}

enum status fleet_input_add(struct fleet_input *in, const char *path)
{
    char file[ACCEPT_PATH_SIZE];
    int found = 0;
    if (!path_is_dir(path))
        return nodes_read(path, &in->nodes);
    if (has(path, ACCEPT_FILE))
        return add_node(in, path, NULL);
    TRY(add_folders(in, path, &found));
    if (found > 0)
        return STATUS_OK;
    TRY(path_format(file, sizeof file, "%s/%s", path, FLEET_SUMMARY));
    if (!path_exists(file))
        return status_fail(STATUS_DATA, "there are no results of nodes in '%s': neither %s nor %s",
                           path, ACCEPT_FILE, FLEET_SUMMARY);
    return nodes_read(file, &in->nodes);
}

void fleet_input_free(struct fleet_input *in)
{
    nodes_free(&in->nodes);
    json_decref(in->better);
    *in = (struct fleet_input){0};
}

/* A new object; NULL without memory. */
static json_t *node_json(const struct node_row *node)
{
    json_t *o = json_pack("{s:s}", "node", node->name);
    bool ok = o != NULL;
    if (ok && *node->hardware)
        ok = json_object_set_new(o, "hardware", json_string(node->hardware)) == 0;
    for (int i = 0; ok && i < node->n; i++) {
        double x = node->value[i].value;
        ok = json_object_set_new(o, node->value[i].metric, isnan(x) ? json_null() : json_real(x)) ==
             0;
    }
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

enum status fleet_input_write(const struct fleet_input *in, const char *path)
{
    json_t *nodes = json_object();
    bool ok = nodes != NULL;
    for (int i = 0; ok && i < in->nodes.n; i++)
        ok = json_object_set_new(nodes, in->nodes.node[i].name, node_json(&in->nodes.node[i])) == 0;
    enum status st =
        ok ? nodes_write(nodes, path) : status_fail(STATUS_OOM, "no memory to write '%s'", path);
    json_decref(nodes);
    return st;
}
