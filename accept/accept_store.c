/* Reads and writes the folder of a node. */
#include "accept/accept_store.h"

#include "accept/accept_kind.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_MAX_BYTES = 64 << 20,
    LOCK_WAIT_SECONDS = 20, /* in which the commands of a killed call end */
};

static enum status read_object(const char *path, json_t **object)
{
    TRY(json_read(path, FILE_MAX_BYTES, object));
    if (json_is_object(*object))
        return STATUS_OK;
    json_decref(*object);
    *object = NULL;
    return status_fail(STATUS_DATA, "'%s' is no JSON object", path);
}

/* Writes `is` to `<of>.json`, or compares it with that file. `name`: for the message. */
static enum status keep(const char *of, const char *name, json_t *is,
                        const struct accept_store *store, bool resume)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/%s.json", store->dir, of));
    if (!path_exists(path))
        return json_write(json_incref(is), ACCEPT_JSON, "%s", path);
    if (!resume)
        return status_fail(
            STATUS_USAGE,
            "'%s' already holds results; --resume continues them, or give another --out",
            store->dir);
    json_t *was = NULL;
    enum status st = json_read(path, FILE_MAX_BYTES, &was);
    if (st != STATUS_OK && st != STATUS_DATA) /* the file cannot be read now, but may still contain
                                               * the same value */
        return st;
    bool same = json_equal(was, is);
    json_decref(was);
    return same ? STATUS_OK
                : status_fail(
                      STATUS_USAGE,
                      "the results in '%s' are of a %s that differs from '%s'; give another --out",
                      store->dir, of, name);
}

enum status accept_store_open(const struct accept_spec *spec, const char *node, const char *dir,
                              bool resume, struct accept_store *store)
{
    json_t *name = NULL;
    char checks[ACCEPT_PATH_SIZE], verdict[ACCEPT_PATH_SIZE];
    *store = (struct accept_store){.dir = dir, .lock = -1};
    TRY(path_format(checks, sizeof checks, "%s/checks", dir));
    TRY(path_format(verdict, sizeof verdict, "%s/" ACCEPT_FILE, dir));
    TRY(dir_make(checks));
    enum status st = dir_lock(dir, "ampscale accept", 0, &store->lock);
    if (st == STATUS_IO) {
        fprintf(stderr, "ampscale: waiting up to %d s for another 'ampscale accept' in '%s'\n",
                LOCK_WAIT_SECONDS, dir);
        st = dir_lock(dir, "ampscale accept", LOCK_WAIT_SECONDS, &store->lock);
    }
    if (st == STATUS_OK)
        fcntl(store->lock, F_SETFD, 0); /* commands of checks inherit the lock */
    st = st == STATUS_OK ? json_new(&name, "{s:s}", "node", node) : st;
    st = st == STATUS_OK ? keep("spec", spec->name, spec->json, store, resume) : st;
    st = st == STATUS_OK ? keep("node", node, name, store, resume) : st;
    json_decref(name);
    if (st == STATUS_OK)
        st = file_remove(verdict); /* this verdict is from an earlier test suite */
    if (st != STATUS_OK)
        fd_close(&store->lock);
    return st;
}

static enum status result_path(const struct accept_store *store, const char *check, bool whole,
                               char path[ACCEPT_PATH_SIZE])
{
    return path_format(path, ACCEPT_PATH_SIZE, "%s/checks/%s%s", store->dir, check,
                       whole ? ".json" : ".part");
}

enum status accept_store_read(const struct accept_store *store, const char *check,
                              struct accept_result *r, bool *whole)
{
    char path[ACCEPT_PATH_SIZE];
    *r = (struct accept_result){0};
    TRY(result_path(store, check, true, path));
    *whole = path_exists(path);
    TRY(result_path(store, check, *whole, path));
    json_t *object;
    if (read_object(path, &object) == STATUS_OK && accept_result_parse(object, r) == STATUS_OK &&
        strcmp(r->name, check) != 0)
        accept_result_free(r);
    json_decref(object);
    *whole = *whole && *r->name;
    return STATUS_OK;
}

bool accept_store_has(const struct accept_store *store, const char *check)
{
    struct accept_result r;
    bool whole;
    if (accept_store_read(store, check, &r, &whole) != STATUS_OK)
        return false;
    whole = whole && r.ended != VERDICT_MISSING &&
            !host_noise_judge(&r.noise, (char[NOISE_TEXT_MAX]){0});
    accept_result_free(&r);
    return whole;
}

enum status accept_store_write(const struct accept_store *store, const struct accept_result *r,
                               bool whole)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(result_path(store, r->name, whole, path));
    TRY(json_write(accept_result_json(r), ACCEPT_JSON, "%s", path));
    return whole ? accept_store_drop_part(store, r->name) : STATUS_OK;
}

enum status accept_store_drop_part(const struct accept_store *store, const char *check)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(result_path(store, check, false, path));
    return file_remove(path);
}

enum status accept_store_repeat_path(const struct accept_store *store, const char *check,
                                     int repeat, char dir[ACCEPT_PATH_SIZE])
{
    return path_format(dir, ACCEPT_PATH_SIZE, "%s/checks/%s/r%d", store->dir, check, repeat);
}

enum status accept_store_record(const struct accept_kind *kind, const char *dir, json_t **record)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/work/%s", dir, kind->work));
    return read_object(path, record);
}

enum status accept_store_output(const struct accept_kind *kind, const char *dir, json_t **output,
                                bool *partial)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/output.json", dir));
    enum status st = read_object(path, output);
    if (st == STATUS_OK || !kind->work)
        return st;
    st = accept_store_record(kind, dir, output);
    *partial = st == STATUS_OK;
    return st;
}
