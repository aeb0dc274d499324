/* Writes files with one line per node, as SuperBench does, and reads such files as untrusted
 * input. */
#include "results/nodes.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/text.h"
#include "base/text_new.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool node_name_ok(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n >= NODE_NAME_MAX || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isascii((unsigned char)name[i]) ||
            (!isalnum((unsigned char)name[i]) && !strchr(".-_", name[i])))
            return false;
    return true;
}

static int by_metric(const void *a, const void *b)
{
    return strcmp(((const struct node_value *)a)->metric, ((const struct node_value *)b)->metric);
}

const struct node_value *node_find(const struct node_row *node, const char *metric)
{
    const struct node_value key = {.metric = (char *)metric};
    return node->n ? bsearch(&key, node->value, (size_t)node->n, sizeof key, by_metric) : NULL;
}

static void node_free(struct node_row *node)
{
    for (int i = 0; i < node->n; i++)
        free(node->value[i].metric);
    free(node->value);
    *node = (struct node_row){0};
}

void nodes_free(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        node_free(&nodes->node[i]);
    free(nodes->node);
    *nodes = (struct nodes){0};
}

/* Returns an untrusted name, cleaned for a message. */
static const char *shown(const char *name, char out[80])
{
    text_clean(out, 80, name);
    return out;
}

static enum status add_value(struct node_row *node, const char *metric, const json_t *value)
{
    char text[NODE_METRIC_MAX], said[80];
    double x = json_is_null(value) ? NAN : json_number_value(value);
    text_clean(text, sizeof text, metric);
    if (!*metric || strcmp(text, metric) != 0)
        return status_fail(STATUS_DATA, "'%s' cannot be the name of a metric", shown(metric, said));
    if (!json_is_null(value) && (!json_is_number(value) || !isfinite(x)))
        return status_fail(STATUS_DATA, "'%s' is not a number", shown(metric, said));
    if (node->n == NODE_METRICS_MAX)
        return status_fail(STATUS_DATA, "more than %d metrics", NODE_METRICS_MAX);
    TRY(text_new(&node->value[node->n].metric, "%s", metric));
    node->value[node->n++].value = x;
    return STATUS_OK;
}

/* Reads a node from its JSON object into a zeroed struct. The caller frees its contents, also after
 * a failure. */
static enum status node_parse(struct node_row *node, const json_t *object)
{
    const char *name = json_text_at(object, "node"), *key;
    char said[80];
    json_t *value;
    if (!json_is_object(object))
        return status_fail(STATUS_DATA, "not an object");
    if (!node_name_ok(name))
        return status_fail(STATUS_DATA, "'%s' under \"node\" cannot be the name of a node",
                           shown(name, said));
    strcpy(node->name, name);
    TRY(array_new(&node->value, json_object_size(object)));
    json_object_foreach((json_t *)object, key, value)
    {
        if (strcmp(key, "node") == 0)
            continue;
        if (strcmp(key, "hardware") == 0 && json_is_string(value))
            text_clean(node->hardware, sizeof node->hardware, json_string_value(value));
        else
            TRY(add_value(node, key, value));
    }
    if (node->n > 0)
        qsort(node->value, (size_t)node->n, sizeof *node->value, by_metric);
    return STATUS_OK;
}

enum status nodes_add(struct nodes *nodes, const json_t *object)
{
    struct node_row node = {{0}};
    enum status st = node_parse(&node, object);
    for (int i = 0; st == STATUS_OK && i < nodes->n; i++)
        if (strcmp(nodes->node[i].name, node.name) == 0)
            st = status_fail(STATUS_DATA, "node '%s' occurs twice", node.name);
    if (st == STATUS_OK && nodes->n == NODES_MAX)
        st = status_fail(STATUS_DATA, "more than %d nodes", NODES_MAX);
    st = st == STATUS_OK ? array_reserve(&nodes->node, nodes->n) : st;
    if (st == STATUS_OK)
        nodes->node[nodes->n++] = node;
    else
        node_free(&node);
    return st;
}

static enum status add_line(void *nodes, char *line, size_t size)
{
    json_error_t error;
    char said[80];
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return status_fail(STATUS_DATA, "not a JSON object: %s", shown(error.text, said));
    enum status st = nodes_add(nodes, object);
    json_decref(object);
    return st;
}

enum status nodes_read(const char *path, struct nodes *nodes)
{
    int before = nodes->n;
    TRY(lines_each(path, true, add_line, nodes));
    return nodes->n == before ? status_fail(STATUS_DATA, "'%s' has no node", path) : STATUS_OK;
}

enum status nodes_write(const json_t *nodes, const char *path)
{
    const char *name;
    json_t *node;
    struct atomic_file f;
    enum status st;
    CHECK(atomic_file_open(&f, path));
    json_object_foreach((json_t *)nodes, name, node)
    {
        json_print(json_incref(node), f.stream, JSON_REAL_PRECISION(9));
    }
done:
    return atomic_file_end(&f, st);
}
