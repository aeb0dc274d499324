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

enum entry { ENTRY_OTHER, ENTRY_FOLDER, ENTRY_RUN, ENTRY_JSON };

/* Looks at an entry of a folder. One that cannot be looked at is named in items->unread. */
static enum entry look_at(struct items *items, const char *path)
{
    bool is_dir;
    if (path_look_dir(path, &is_dir) != STATUS_OK) {
        table_add(&items->unread, "%s", status_message());
        return ENTRY_OTHER;
    }
    if (is_dir)
        return run_exists(path) ? ENTRY_RUN : ENTRY_FOLDER;
    return text_ends_with(path, ".json") ? ENTRY_JSON : ENTRY_OTHER;
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
    enum entry *entry = NULL;
    bool runs = false, records = false; /* the folder directly contains some */
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
    CHECK(array_new(&entry, names.n));
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        entry[i] = look_at(items, path);
        runs = runs || entry[i] == ENTRY_RUN;
        records = records || entry[i] == ENTRY_JSON;
    }
    /* If a folder directly contains both runs and other records, all of them get this folder as
     * their `place`. */
    if (runs)
        CHECK(add(items, ITEM_RUNS, records ? dir : place, dir));
    if ((runs && !records) || depth == DEPTH_MAX)
        goto done;
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        if (entry[i] == ENTRY_FOLDER)
            CHECK(scan(items, dir, path, depth + 1));
        else if (entry[i] == ENTRY_JSON)
            CHECK(add(items, ITEM_RECORD, dir, path));
    }
done:
    free(entry);
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
    bool is_dir;
    TRY(path_look_dir(dir, &is_dir));
    if (!is_dir)
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
    table_free(&items->unread);
    *items = (struct items){0};
}
