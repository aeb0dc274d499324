/* Writes the weights of a checkpoint as a PyTorch state_dict. */
#include "runners/checkpoint.h"

#include "base/array.h"
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_momentum(const struct safetensors_entry *e)
{
    return strncmp(e->name, MOMENTUM_PREFIX, strlen(MOMENTUM_PREFIX)) == 0;
}

/* Returns whether `a` and `b` are names of the same file. */
static bool is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

enum status checkpoint_export_weights(const char *from, const char *to,
                                      enum status (*proceed)(void))
{
    enum status st;
    struct safetensors *f;
    struct safetensors_entry *entry = NULL;
    struct atomic_file out = {NULL};
    struct safetensors_pair pair[] = {{"format", "pt"}, {"arch", NULL}};
    size_t n = 0;
    if (is_same(from, to))
        return status_fail(STATUS_USAGE, "'%s' is the checkpoint itself; name another file", to);
    TRY(safetensors_open(from, &f));
    pair[1].value = safetensors_metadata(f, "arch");
    if (!pair[1].value)
        CHECK(status_fail(STATUS_DATA, "'%s' is not a checkpoint: it does not name its network",
                          from));
    CHECK(array_new(&entry, safetensors_count(f)));
    for (size_t i = 0; i < safetensors_count(f); i++)
        if (!is_momentum(safetensors_at(f, i)))
            entry[n++] = *safetensors_at(f, i);
    const struct safetensors_contents contents = {
        .entry = entry, .n_entries = n, .pair = pair, .n_pairs = sizeof pair / sizeof *pair};
    CHECK(safetensors_prepare(to, &contents, &out));
    st = proceed ? proceed() : STATUS_OK;
    if (st == STATUS_OK)
        st = atomic_file_commit(&out);
    else
        atomic_file_abandon(&out);
done:
    free(entry);
    safetensors_close(f);
    return st;
}
