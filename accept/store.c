/* The folder of a node. */
#include "accept/store.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 16 << 20 };

static enum status take_lock(struct accept_store *store)
{
    store->lock = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->lock < 0)
        return status_fail(STATUS_IO, "cannot open '%s': %s", store->dir, strerror(errno));
    if (flock(store->lock, LOCK_EX | LOCK_NB) == 0)
        return STATUS_OK;
    return status_fail(STATUS_IO, "another 'ampscale accept' works in '%s'; wait for its end",
                       store->dir);
}

/* Takes `object` over; NULL when memory was short. */
static enum status write_json(json_t *object, const char *path)
{
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    if (!text)
        return status_fail(STATUS_OOM, "no memory to write '%s'", path);
    enum status st = file_replace(path, text, strlen(text));
    free(text);
    return st;
}

/* NULL where there is no such file or it is no JSON. */
static json_t *read_json(const char *path)
{
    char *bytes;
    size_t size;
    if (!path_exists(path) || file_read(path, FILE_MAX_BYTES, &bytes, &size) != STATUS_OK)
        return NULL;
    json_t *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    free(bytes);
    return object;
}

static enum status keep_spec(const struct accept_spec *spec, const struct accept_store *store,
                             bool resume)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/spec.json", store->dir));
    if (!path_exists(path))
        return write_json(json_incref(spec->json), path);
    if (!resume)
        return status_fail(STATUS_USAGE,
                           "'%s' holds results; --resume goes on with them, or give another --out",
                           store->dir);
    json_t *was = read_json(path);
    bool same = json_equal(was, spec->json);
    json_decref(was);
    return same ? STATUS_OK
                : status_fail(STATUS_USAGE,
                              "'%s' holds results of another spec than '%s' is now; give another "
                              "--out",
                              store->dir, spec->name);
}

/* The verdict of an earlier battery is not that of the one that begins. */
static enum status drop_verdict(const struct accept_store *store)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(path_format(path, sizeof path, "%s/" ACCEPT_FILE, store->dir));
    if (unlink(path) == 0 || errno == ENOENT)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot remove '%s': %s", path, strerror(errno));
}

enum status accept_store_open(const struct accept_spec *spec, const char *dir, bool resume,
                              struct accept_store *store)
{
    char checks[ACCEPT_PATH_SIZE];
    *store = (struct accept_store){.dir = dir, .lock = -1};
    TRY(path_format(checks, sizeof checks, "%s/checks", dir));
    TRY(dir_make(checks));
    enum status st = take_lock(store);
    if (st == STATUS_OK)
        st = keep_spec(spec, store, resume);
    if (st == STATUS_OK)
        st = drop_verdict(store);
    if (st != STATUS_OK)
        accept_store_close(store);
    return st;
}

void accept_store_close(struct accept_store *store)
{
    if (store->lock >= 0)
        close(store->lock);
    store->lock = -1;
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
    json_t *object = read_json(path);
    if (object && accept_result_parse(object, r) == STATUS_OK && strcmp(r->name, check) != 0)
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
    whole = whole && r.ended != ACCEPT_MISSING;
    accept_result_free(&r);
    return whole;
}

enum status accept_store_write(const struct accept_store *store, const struct accept_result *r,
                               bool whole)
{
    char path[ACCEPT_PATH_SIZE];
    TRY(result_path(store, r->name, whole, path));
    TRY(write_json(accept_result_json(r), path));
    if (!whole)
        return STATUS_OK;
    TRY(result_path(store, r->name, false, path));
    if (unlink(path) == 0 || errno == ENOENT)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot remove '%s': %s", path, strerror(errno));
}

enum status accept_store_repeat(const struct accept_store *store, const char *check, int repeat,
                                char dir[ACCEPT_PATH_SIZE])
{
    TRY(path_format(dir, ACCEPT_PATH_SIZE, "%s/checks/%s/r%d", store->dir, check, repeat));
    TRY(dir_remove(dir));
    return dir_make(dir);
}
