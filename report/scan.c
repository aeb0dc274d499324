/* Finding records. */
#include "report/scan.h"

#include "base/file.h"
#include "results/text.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#define ACCEPT_FILE "accept.json"

enum { DEPTH_MAX = 4, NAMES_MAX = 100000 };

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_free(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n > m && strcmp(text + n - m, suffix) == 0;
}

enum status names_in(const char *dir, const char *suffix, char ***names, int *n)
{
    enum status st = STATUS_OK;
    int capacity = 0;
    struct dirent *entry;
    *names = NULL;
    *n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return status_fail(STATUS_IO, "cannot read '%s': %s", dir, strerror(errno));
    while (st == STATUS_OK && (entry = readdir(d)) && *n < NAMES_MAX) {
        if (*entry->d_name == '.' || (*suffix && !ends_with(entry->d_name, suffix)))
            continue;
        if (*n == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            char **grown = realloc(*names, (size_t)capacity * sizeof *grown);
            if (!grown)
                break;
            *names = grown;
        }
        (*names)[*n] = strdup(entry->d_name);
        if (!(*names)[*n])
            break;
        (*n)++;
    }
    if (entry && *n < NAMES_MAX)
        st = status_fail(STATUS_OOM, "no memory for the names in '%s'", dir);
    closedir(d);
    if (st != STATUS_OK)
        names_free(*names, *n);
    else if (*n > 0)
        qsort(*names, (size_t)*n, sizeof **names, compare_names);
    return st;
}

static bool holds(const char *dir, const char *file)
{
    char path[REPORT_PATH_SIZE];
    return snprintf(path, sizeof path, "%s/%s", dir, file) < (int)sizeof path && path_exists(path);
}

/* What a folder has in it. */
struct contents {
    bool runs, records;
};

static enum status look_inside(const char *dir, struct contents *c)
{
    char **names;
    int n;
    *c = (struct contents){false, false};
    TRY(names_in(dir, "", &names, &n));
    for (int i = 0; i < n; i++) {
        char path[REPORT_PATH_SIZE];
        if (snprintf(path, sizeof path, "%s/%s", dir, names[i]) >= (int)sizeof path)
            continue;
        c->runs = c->runs || (path_is_dir(path) && holds(path, "run.json"));
        c->records = c->records || (!path_is_dir(path) && ends_with(names[i], ".json"));
    }
    names_free(names, n);
    return STATUS_OK;
}

static enum status add(struct items *items, enum item_kind kind, const char *place,
                       const char *path)
{
    char copy[REPORT_PATH_SIZE];
    if (items->n == items->capacity) {
        int capacity = items->capacity ? 2 * items->capacity : 16;
        struct item *grown = realloc(items->v, (size_t)capacity * sizeof *grown);
        if (!grown)
            return status_fail(STATUS_OOM, "no memory for records");
        items->v = grown;
        items->capacity = capacity;
    }
    struct item *item = &items->v[items->n];
    item->kind = kind;
    TRY(path_format(item->path, sizeof item->path, "%s", path));
    TRY(path_format(item->place, sizeof item->place, "%s", place));
    TRY(path_format(copy, sizeof copy, "%s", path));
    if (kind == ITEM_RECORD)
        copy[strlen(copy) - strlen(".json")] = '\0';
    TRY(path_format(item->figures, sizeof item->figures, "%s%s", copy,
                    kind == ITEM_RECORD ? "-figures" : "/figures"));
    text_clean(item->name, sizeof item->name, basename(copy));
    items->n++;
    return STATUS_OK;
}

static enum status scan(struct items *items, const char *place, const char *dir, int depth)
{
    char **names;
    int n;
    struct contents inside;
    if (holds(dir, ANALYSIS_FILE))
        return add(items, ITEM_STUDY, place, dir);
    if (holds(dir, "run.json"))
        return add(items, ITEM_RUN, place, dir);
    if (holds(dir, ACCEPT_FILE)) { /* the files below are what it is made of */
        char path[REPORT_PATH_SIZE];
        TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, dir));
        return add(items, ITEM_RECORD, place, path);
    }
    TRY(look_inside(dir, &inside));
    /* Records beside runs make the folder itself the place of both. */
    if (inside.runs)
        TRY(add(items, ITEM_RUNS, inside.records ? dir : place, dir));
    if ((inside.runs && !inside.records) || depth == DEPTH_MAX)
        return STATUS_OK;
    enum status st = names_in(dir, "", &names, &n);
    for (int i = 0; st == STATUS_OK && i < n; i++) {
        char path[REPORT_PATH_SIZE];
        st = path_format(path, sizeof path, "%s/%s", dir, names[i]);
        if (st == STATUS_OK && path_is_dir(path) && !(inside.runs && holds(path, "run.json")))
            st = scan(items, dir, path, depth + 1);
        else if (st == STATUS_OK && !path_is_dir(path) && ends_with(names[i], ".json"))
            st = add(items, ITEM_RECORD, dir, path);
    }
    names_free(names, n);
    return st;
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int place = strcmp(x->place, y->place);
    if (place != 0 || x->kind != y->kind)
        return place ? place : (int)x->kind - (int)y->kind;
    return strcmp(x->path, y->path);
}

enum status items_scan(struct items *items, const char *dir)
{
    int before = items->n;
    if (!path_is_dir(dir))
        return status_fail(STATUS_DATA,
                           "no folder '%s': give one that holds studies, runs or records of bench",
                           dir);
    TRY(scan(items, dir, dir, 0));
    if (items->n > before)
        qsort(&items->v[before], (size_t)(items->n - before), sizeof *items->v, compare_items);
    return STATUS_OK;
}

void items_free(struct items *items)
{
    free(items->v);
    *items = (struct items){0};
}
