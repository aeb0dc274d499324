/* Where facts about plans are kept. */
#include "kernels/cuda/plan_file.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t SAVE_NS = 2000000000;

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

enum status plan_file_of(struct cuda_device *dev, struct plan_file **out)
{
    enum status st;
    *out = dev->plans;
    if (*out)
        return STATUS_OK;
    struct plan_file *f = calloc(1, sizeof *f);
    if (!f)
        return status_fail(STATUS_OOM, "no memory for a cache of plans");
    CHECK(plan_cache_open(&f->cache));
    find_path(f->path);
    if (f->path[0] && plan_cache_load(f->cache, f->path) == STATUS_OOM)
        st = STATUS_OOM;
done:
    if (st != STATUS_OK) {
        plan_file_close(f);
        return st;
    }
    *out = dev->plans = f;
    return STATUS_OK;
}

void plan_file_close(struct plan_file *f)
{
    if (!f)
        return;
    if (f->cache)
        plan_file_save(f);
    plan_cache_close(f->cache);
    free(f);
}

void plan_file_note(struct plan_file *f)
{
    f->changed = true;
    if (clock_ns() - f->saved >= SAVE_NS)
        plan_file_save(f);
}

void plan_file_save(struct plan_file *f)
{
    if (!f->changed || !f->path[0])
        return;
    enum status st = plan_cache_load(f->cache, f->path);
    if (st != STATUS_OOM)
        st = plan_cache_save(f->cache, f->path);
    (void)st;
    f->changed = false;
    f->saved = clock_ns();
}
