/* Finds the records in a folder. */
#include "report/report_scan.h"

#include "base/array.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#define ACCEPT_FILE "accept.json"

enum { DEPTH_MAX = 4 };

/* Whether a folder directly contains runs, and whether it directly contains other records. */
struct contents {
    bool runs, records;
};

static struct contents look_inside(const char *dir, const struct words *names)
{
    struct contents c = {false, false};
    for (int i = 0; i < names->n; i++) {
        char path[REPORT_PATH_SIZE];
        if (snprintf(path, sizeof path, "%s/%s", dir, names->v[i]) >= (int)sizeof path)
            continue;
        c.runs = c.runs || (path_is_dir(path) && run_exists(path));
        c.records = c.records || (!path_is_dir(path) && text_ends_with(names->v[i], ".json"));
    }
    return c;
}

static enum status add(struct items *items, enum item_kind kind, const char *place,
                       const char *path)
{
    char copy[REPORT_PATH_SIZE];
    TRY(array_reserve(&items->v, items->n));
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
    char path[REPORT_PATH_SIZE];
    struct words names = {0};
    enum status st;
    if (dir_has(dir, ANALYSIS_FILE))
        return add(items, ITEM_STUDY, place, dir);
    if (run_exists(dir))
        return add(items, ITEM_RUN, place, dir);
    if (dir_has(dir, ACCEPT_FILE)) { /* the other files in `dir` belong to the acceptance */
        TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, dir));
        return add(items, ITEM_RECORD, place, path);
    }
    CHECK(dir_list(dir, "", &names));
    struct contents inside = look_inside(dir, &names);
    /* If a folder directly contains both runs and other records, all of them get this folder as
     * their `place`. */
    if (inside.runs)
        CHECK(add(items, ITEM_RUNS, inside.records ? dir : place, dir));
    if ((inside.runs && !inside.records) || depth == DEPTH_MAX)
        goto done;
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        if (path_is_dir(path) && !(inside.runs && run_exists(path)))
            CHECK(scan(items, dir, path, depth + 1));
        else if (!path_is_dir(path) && text_ends_with(names.v[i], ".json"))
            CHECK(add(items, ITEM_RECORD, dir, path));
    }
done:
    words_free(&names);
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
        return status_fail(
            STATUS_DATA,
            "no folder '%s': give a folder that contains studies, runs or records of bench", dir);
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
