/* Prints the records reference in Markdown: for each JSON Schema a table of its keys, their types
 * and their meanings. Arguments: the files of schemas; a "$ref" is looked up in the folder of the
 * first. */
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 256 };

/* A schema, and the file that it belongs to. */
struct part {
    json_t *schema, *root;
};

static const char *folder;

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

/* Reads a file. The value stays in memory until the program ends. */
static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root)
        return root;
    fprintf(stderr, "make_records: '%s', line %d: %s\n", path, error.line, error.text);
    exit(1);
}

/* Returns the part that "FILE#/$defs/NAME" or "#/$defs/NAME" names, and NAME. */
static struct part find(json_t *root, const char *ref, const char **name)
{
    char path[4096];
    const char *at = strchr(ref, '#');
    *name = strrchr(ref, '/') + 1;
    if (at > ref) {
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)(at - ref), ref);
        root = load(path);
    }
    json_t *schema = json_object_get(json_object_get(root, "$defs"), *name);
    if (schema)
        return (struct part){schema, root};
    fprintf(stderr, "make_records: there is no '%s'\n", ref);
    exit(1);
}

/* The object whose keys a table lists: the schema, or the elements of its list; NULL: none. */
static json_t *table_of(json_t *schema)
{
    json_t *items = json_object_get(schema, "items");
    if (json_object_get(schema, "properties"))
        return schema;
    return json_object_get(items, "properties") ? items : NULL;
}

static void print_type(struct part p, FILE *out);

/* Prints a list of words or values, as in "cpu or gpu". */
static void print_choices(const json_t *list, json_t *root, FILE *out)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        fputs(i > 0 ? " or " : "", out);
        if (json_is_object(v))
            print_type((struct part){v, root}, out);
        else if (json_is_string(v))
            fputs(json_string_value(v), out);
        else
            json_dumpf(v, out, JSON_ENCODE_ANY);
    }
}

static void print_type(struct part p, FILE *out)
{
    static const char *const lists[] = {"enum", "oneOf", "anyOf"};
    const char *name, *ref = text_of(p.schema, "$ref"), *type = text_of(p.schema, "type");
    json_t *items = json_object_get(p.schema, "items"), *types = json_object_get(p.schema, "type");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (json_object_get(p.schema, lists[i])) {
            print_choices(json_object_get(p.schema, lists[i]), p.root, out);
            return;
        }
    if (*ref) {
        struct part target = find(p.root, ref, &name);
        json_t *table = table_of(target.schema);
        if (table)
            fprintf(out, "%s`%s`", table == target.schema ? "" : "list of ", name);
        else
            print_type(target, out);
    } else if (json_object_get(p.schema, "const")) {
        json_dumpf(json_object_get(p.schema, "const"), out, JSON_ENCODE_ANY);
    } else if (strcmp(type, "array") == 0 && items) {
        fputs("list of ", out);
        print_type((struct part){items, p.root}, out);
    } else if (json_is_array(types)) {
        print_choices(types, p.root, out);
    } else {
        fputs(type, out);
    }
}

/* Prints the rows of a table: a row for each key, and for the keys of an object inside it. */
static void print_rows(struct part p, const char *prefix, FILE *out)
{
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(p.schema, "properties"), key, v)
    {
        char name[NAME_MAX_BYTES];
        const char *about = text_of(v, "description");
        json_t *table = table_of(v);
        fprintf(out, "| `%s%s` | ", prefix, key);
        print_type((struct part){v, p.root}, out);
        fprintf(out, " | %s |\n", *about || !json_object_get(v, "const") ? about : "Always this.");
        snprintf(name, sizeof name, "%s%s%s.", prefix, key, table == v ? "" : "[]");
        if (table)
            print_rows((struct part){table, p.root}, name, out);
    }
}

static void print_table(struct part p, FILE *out)
{
    if (*text_of(p.schema, "description"))
        fprintf(out, "\n%s\n", text_of(p.schema, "description"));
    json_t *table = table_of(p.schema);
    if (!table)
        return;
    fputs("\n| key | type | meaning |\n|---|---|---|\n", out);
    print_rows((struct part){table, p.root}, "", out);
}

static void print_record(const char *path, FILE *out)
{
    const char *name;
    json_t *root = load(path), *v;
    fprintf(out, "\n## %s\n", text_of(root, "title"));
    print_table((struct part){root, root}, out);
    json_object_foreach(json_object_get(root, "$defs"), name, v)
    {
        if (!table_of(v))
            continue;
        fprintf(out, "\n### `%s`\n", name);
        print_table((struct part){v, root}, out);
    }
}

int main(int argc, char **argv)
{
    char first[4096];
    if (argc < 2) {
        fputs("usage: make_records SCHEMA...\n", stderr);
        return 2;
    }
    snprintf(first, sizeof first, "%s", argv[1]);
    folder = dirname(first);
    puts("# Records\n\nFor engineers who read records with programs of their own: each key, its "
         "type,\n"
         "and its meaning with its unit.\n\nA type in code is a table of the same section, or of "
         "the\n"
         "last one. docs/schema has the JSON Schemas.");
    for (int i = 1; i < argc; i++)
        print_record(argv[i], stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
