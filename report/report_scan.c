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

enum entry { ENTRY_OTHER, ENTRY_FOLDER, ENTRY_STUDY, ENTRY_RUN, ENTRY_ACCEPTANCE, ENTRY_JSON };

static enum status look_at(const char *path, enum entry *entry)
{
    static const struct {
        const char *file; /* which only a folder of this kind has */
        enum entry entry;
    } kinds[] = {
        {ANALYSIS_FILE, ENTRY_STUDY}, {"run.json", ENTRY_RUN}, {ACCEPT_FILE, ENTRY_ACCEPTANCE}};
    bool is_dir, has;
    TRY(path_look_dir(path, &is_dir));
    *entry = is_dir ? ENTRY_FOLDER : text_ends_with(path, ".json") ? ENTRY_JSON : ENTRY_OTHER;
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds) && *entry == ENTRY_FOLDER; i++) {
        TRY(dir_look(path, kinds[i].file, &has));
        if (has)
            *entry = kinds[i].entry;
    }
    return STATUS_OK;
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

/* Sets *again to whether the folder has been scanned before, by another path to it. */
static enum status scanned(struct items *items, const char *dir, bool *again)
{
    struct stat s = {0};
    TRY(path_stat(dir, &s, again));
    *again = false;
    for (int i = 0; i < items->n_scanned && !*again; i++)
        *again = items->scanned[i].st_dev == s.st_dev && items->scanned[i].st_ino == s.st_ino;
    TRY(array_reserve(&items->scanned, items->n_scanned));
    items->scanned[items->n_scanned++] = s;
    return STATUS_OK;
}

static enum status scan(struct items *items, const char *place, const char *dir, int depth);

/* Adds an entry of the folder `place`, and what it contains. */
static enum status add_entry(struct items *items, const char *place, const char *path,
                             enum entry entry, int depth)
{
    char file[REPORT_PATH_SIZE];
    switch (entry) {
    case ENTRY_FOLDER:
        return scan(items, place, path, depth);
    case ENTRY_STUDY:
        return add(items, ITEM_STUDY, place, path);
    case ENTRY_RUN:
        return add(items, ITEM_RUN, place, path);
    case ENTRY_ACCEPTANCE: /* the other files in `path` belong to it */
        TRY(path_format(file, sizeof file, "%s/" ACCEPT_FILE, path));
        return add(items, ITEM_RECORD, place, file);
    case ENTRY_JSON:
        return add(items, ITEM_RECORD, place, path);
    case ENTRY_OTHER:
        break;
    }
    return STATUS_OK;
}

/* Adds the contents of a folder that is itself no record. Names entries that cannot be looked at in
 * items->unread. */
static enum status scan(struct items *items, const char *place, const char *dir, int depth)
{
    char path[REPORT_PATH_SIZE];
    struct words names = {0};
    enum entry *entry = NULL;
    bool runs = false, records = false; /* the folder directly contains some */
    bool again;
    enum status st;
    TRY(scanned(items, dir, &again));
    if (again)
        return STATUS_OK;
    CHECK(dir_list(dir, "", &names));
    CHECK(array_new(&entry, names.n));
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        if (look_at(path, &entry[i]) != STATUS_OK) {
            table_add(&items->unread, "%s", status_message());
            entry[i] = ENTRY_OTHER;
        }
        runs = runs || entry[i] == ENTRY_RUN;
        records = records || entry[i] == ENTRY_JSON;
    }
    /* If a folder directly contains both runs and other records, all of them get this folder as
     * their `place`. */
    if (runs)
        CHECK(add(items, ITEM_RUNS, records ? dir : place, dir));
    if (depth == DEPTH_MAX)
        goto done;
    for (int i = 0; i < names.n; i++) {
        CHECK(path_format(path, sizeof path, "%s/%s", dir, names.v[i]));
        if (entry[i] != ENTRY_RUN)
            CHECK(add_entry(items, dir, path, entry[i], depth + 1));
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
    enum entry entry;
    TRY(look_at(dir, &entry));
    if (entry == ENTRY_OTHER || entry == ENTRY_JSON)
        return status_fail(
            STATUS_DATA,
            "no folder '%s': give a folder that contains studies, runs or records of bench", dir);
    TRY(add_entry(items, dir, dir, entry, 0));
    if (items->n > before)
        qsort(&items->v[before], (size_t)(items->n - before), sizeof *items->v, compare_items);
    return STATUS_OK;
}

void items_free(struct items *items)
{
    free(items->v);
    free(items->scanned);
    table_free(&items->unread);
    *items = (struct items){0};
}
