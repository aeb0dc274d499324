/* Shares the process's facts about plans between its devices, and stores them in a file. */
#include "kernels/cuda/plan_file.h"

#include "base/clock.h"
#include "base/file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOURNAL_MAX = 1 << 20 };

static const uint64_t SAVE_NS = 2000000000;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan_file {
    int users; /* number of devices; 0: the other members are not set */
    struct plan_cache *cache;
    char path[PATH_MAX]; /* empty: there is no file */
    bool changed;        /* facts were added since the file was read or written */
    bool replaced;       /* a fact was replaced; the file may contain facts that are no longer
                          * true */
    uint64_t saved;      /* clock_ns() when the file was last written; 0: not yet */
} file;

static void find_path(char path[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char dir[PATH_MAX];
    path[0] = '\0';
    if (cache && cache[0] == '/')
        snprintf(dir, sizeof dir, "%s/ampscale", cache);
    else if (home && home[0] == '/')
        snprintf(dir, sizeof dir, "%s/.cache/ampscale", home);
    else
        return;
    if (dir_make(dir) != STATUS_OK || path_format(path, PATH_MAX, "%s/plans", dir) != STATUS_OK)
        path[0] = '\0';
}

void plan_file_journal(char path[PATH_MAX])
{
    if (!file.path[0] || path_format(path, PATH_MAX, "%s.broken", file.path) != STATUS_OK)
        path[0] = '\0';
}

/* Adds the facts that the engines in the journal cannot be used. Lines that are no keys of engines
 * are ignored. */
static enum status journal_read(void)
{
    const struct plan_choice broken = {.fact = PLAN_LACKING};
    char path[PATH_MAX], *text, *next = NULL;
    size_t size;
    bool exists = false;
    plan_file_journal(path);
    if (path[0])
        TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    TRY(file_read(path, JOURNAL_MAX, &text, &size));
    for (char *key = strtok_r(text, "\n", &next); key; key = strtok_r(NULL, "\n", &next))
        if (strstr(key, PLAN_ENGINE_WORDS) && !plan_cache_find(file.cache, key))
            file.changed |= plan_cache_put(file.cache, key, &broken) == STATUS_OK;
    free(text);
    return STATUS_OK;
}

static enum status plan_file_read(void)
{
    file.saved = 0;
    file.changed = file.replaced = false;
    TRY(plan_cache_open(&file.cache));
    find_path(file.path);
    if (file.path[0] &&
        (plan_cache_load(file.cache, file.path) == STATUS_OOM || journal_read() == STATUS_OOM))
        return STATUS_OOM;
    return STATUS_OK;
}

/* Merges the file and the process's facts in both directions. If a key is in both, the file and the
 * process each keep their own fact. But if the process has replaced a fact, the process's facts
 * replace those in the file. */
static enum status plan_file_write(void)
{
    enum status st;
    struct plan_cache *all;
    CHECK(plan_cache_open(&all));
    if (plan_cache_load(all, file.path) == STATUS_OOM)
        CHECK(STATUS_OOM);
    if (!file.replaced)
        CHECK(plan_cache_merge(all, file.cache));
    CHECK(plan_cache_merge(file.cache, all));
    CHECK(plan_cache_save(file.replaced ? file.cache : all, file.path));
    file.replaced = false;
done:
    plan_cache_close(all);
    return st;
}

static void save_changes(void)
{
    if (!file.changed || !file.path[0])
        return;
    enum status st = plan_file_write();
    (void)st;
    file.changed = false;
    file.saved = clock_ns();
}

static void plan_file_close_with(struct cuda_device *dev)
{
    pthread_mutex_lock(&lock);
    dev->plan_file = false;
    if (--file.users == 0) {
        save_changes();
        plan_cache_close(file.cache);
        file.cache = NULL;
    }
    pthread_mutex_unlock(&lock);
}

enum status plan_file_open(struct cuda_device *dev)
{
    enum status st = STATUS_OK;
    if (dev->plan_file)
        return STATUS_OK;
    pthread_mutex_lock(&lock);
    if (file.users == 0)
        st = plan_file_read();
    if (st == STATUS_OK) {
        file.users++;
        dev->plan_file = true;
        cuda_at_close(dev, plan_file_close_with);
    } else if (file.users == 0) {
        plan_cache_close(file.cache);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static bool plan_file_lookup(const char *key, struct plan_choice *choice)
{
    const struct plan_choice *known = plan_cache_find(file.cache, key);
    if (known)
        *choice = *known;
    return known != NULL;
}

bool plan_file_find(const char *key, struct plan_choice *choice)
{
    pthread_mutex_lock(&lock);
    bool known = plan_file_lookup(key, choice);
    pthread_mutex_unlock(&lock);
    return known;
}

static enum status plan_file_put(const char *key, const struct plan_choice *choice)
{
    TRY(plan_cache_put(file.cache, key, choice));
    file.changed = true;
    if (clock_ns() - file.saved >= SAVE_NS)
        save_changes();
    return STATUS_OK;
}

enum status plan_file_add(const char *key, struct plan_choice *choice)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&lock);
    if (!plan_file_lookup(key, choice))
        st = plan_file_put(key, choice);
    pthread_mutex_unlock(&lock);
    return st;
}

enum status plan_file_replace(const char *key, const struct plan_choice *choice)
{
    pthread_mutex_lock(&lock);
    file.replaced = true;
    enum status st = plan_file_put(key, choice);
    pthread_mutex_unlock(&lock);
    return st;
}

void plan_file_save(void)
{
    pthread_mutex_lock(&lock);
    save_changes();
    pthread_mutex_unlock(&lock);
}
