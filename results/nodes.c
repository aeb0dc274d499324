/* SuperBench's lines, one a node: written, and read as what anybody may have written. */
#include "results/nodes.h"

#include "base/file.h"
#include "results/lines.h"
#include "results/text.h"

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

/* A name of somebody else's, fit for a message. */
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
    char *copy = strdup(metric);
    if (!copy)
        return status_fail(STATUS_OOM, "no memory for metrics");
    node->value[node->n++] = (struct node_value){.metric = copy, .value = x};
    return STATUS_OK;
}

/* Fills a zeroed node, which is freed by the caller also after a failure. */
static enum status node_parse(struct node_row *node, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "node"));
    const char *key;
    char said[80];
    json_t *value;
    if (!json_is_object(object))
        return status_fail(STATUS_DATA, "not an object");
    if (!name || !node_name_ok(name))
        return status_fail(STATUS_DATA, "'%s' under \"node\" cannot be the name of a node",
                           shown(name ? name : "", said));
    strcpy(node->name, name);
    node->value = calloc(json_object_size(object), sizeof *node->value);
    if (!node->value)
        return status_fail(STATUS_OOM, "no memory for metrics");
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

static enum status make_room(struct nodes *nodes)
{
    if (nodes->n < nodes->capacity)
        return STATUS_OK;
    int capacity = nodes->capacity ? 2 * nodes->capacity : 16;
    if (nodes->n == NODES_MAX)
        return status_fail(STATUS_DATA, "more than %d nodes", NODES_MAX);
    struct node_row *more = realloc(nodes->node, (size_t)capacity * sizeof *more);
    if (!more)
        return status_fail(STATUS_OOM, "no memory for %d nodes", capacity);
    nodes->node = more;
    nodes->capacity = capacity;
    return STATUS_OK;
}

enum status nodes_add(struct nodes *nodes, const json_t *object)
{
    struct node_row node = {{0}};
    enum status st = node_parse(&node, object);
    for (int i = 0; st == STATUS_OK && i < nodes->n; i++)
        if (strcmp(nodes->node[i].name, node.name) == 0)
            st = status_fail(STATUS_DATA, "node '%s' is there twice", node.name);
    if (st == STATUS_OK)
        st = make_room(nodes);
    if (st == STATUS_OK)
        nodes->node[nodes->n++] = node;
    else
        node_free(&node);
    return st;
}

static enum status add_line(struct nodes *nodes, const char *line, size_t size)
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
    struct lines l;
    char *line;
    size_t size;
    int before = nodes->n;
    enum status st;
    CHECK(lines_open(&l, path));
    for (;;) {
        CHECK(lines_next(&l, &line, &size));
        if (!line)
            break;
        st = add_line(nodes, line, size);
        if (st != STATUS_OK) {
            st = status_context(st, "'%s', line %lld", path, (long long)l.number);
            goto done;
        }
    }
    if (l.torn)
        st = status_fail(STATUS_DATA, "the last line of '%s' is torn: it has no end", path);
    else if (nodes->n == before)
        st = status_fail(STATUS_DATA, "there is no node in '%s'", path);
done:
    lines_close(&l);
    return st;
}

enum status nodes_write(const json_t *nodes, const char *path)
{
    const char *name;
    json_t *node;
    struct atomic_file f;
    TRY(atomic_file_open(&f, path));
    json_object_foreach((json_t *)nodes, name, node)
    {
        char *text = json_dumps(node, JSON_REAL_PRECISION(9));
        if (!text) {
            atomic_file_abandon(&f);
            return status_fail(STATUS_OOM, "no memory to write '%s'", path);
        }
        fprintf(f.stream, "%s\n", text);
        free(text);
    }
    return atomic_file_commit(&f);
}
