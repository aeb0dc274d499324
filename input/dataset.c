/* Functions of a data set that are the same for folders of images, for archives and for dummy sets,
 * which have no files. */
#include "input/dataset.h"

#include "base/array.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FINGERPRINT_SIZES = 16384 };

enum status dataset_dummy(int64_t n, int classes, struct dataset **out)
{
    *out = NULL;
    if (n < 1 || n > INT32_MAX || classes < 1)
        return status_fail(STATUS_INVALID,
                           "a synthetic data set cannot have %lld images in %d classes",
                           (long long)n, classes);
    struct dataset *d;
    TRY(array_new(&d, 1));
    enum status st = STATUS_OK;
    struct words names = {0};
    for (int c = 0; c < classes; c++)
        CHECK(words_add(&names, "dummy-%06d", c));
    d->n = n;
done:
    d->class_name = names.v;
    d->classes = names.n;
    if (st == STATUS_OK)
        *out = d;
    else
        dataset_free(d);
    return st;
}

/* Counts the classes of `a` that `b` lacks, and sets *first to the first of them. Both lists are
 * sorted. */
static int count_missing(const struct dataset *a, const struct dataset *b, const char **first)
{
    int missing = 0;
    for (int i = 0, j = 0; i < a->classes; i++) {
        while (j < b->classes && strcmp(b->class_name[j], a->class_name[i]) < 0)
            j++;
        if (j < b->classes && strcmp(b->class_name[j], a->class_name[i]) == 0)
            continue;
        if (missing++ == 0)
            *first = a->class_name[i];
    }
    return missing;
}

static enum status check_missing(const struct dataset *have, const struct dataset *lack)
{
    static const char marks[] = "\xcc\xcd"; /* first bytes of combining marks, U+0300 to U+036F */
    const char *first = NULL, *other = "";
    int missing = count_missing(have, lack, &first);
    if (missing == 0)
        return STATUS_OK;
    count_missing(lack, have, &other);
    char more[32] = "";
    if (missing > 1)
        snprintf(more, sizeof more, " (and %d more)", missing - 1);
    return status_fail(
        STATUS_DATA, "class '%s'%s is in '%s' but not in '%s': both splits need the same classes%s",
        first, more, have->name, lack->name,
        !strpbrk(first, marks) == !strpbrk(other, marks)
            ? ""
            : "; names that look alike may differ in Unicode's normal form: rename "
              "with 'convmv -f utf8 -t utf8 --nfc -r'");
}

enum status dataset_check_pair(const struct dataset *train, const struct dataset *val)
{
    TRY(check_missing(train, val));
    return check_missing(val, train);
}

void dataset_warn(const struct dataset *d, FILE *out)
{
    if (d->classes != 1)
        return;
    const char *path = dataset_path(d, d->n - 1), *file = strrchr(path, '/');
    bool deeper = d->shards == 0 && file != strchr(path, '/');
    text_print(out,
               "ampscale: warning: '%s' has only one class, '%s': the loss is always 0, and the "
               "accuracy says nothing%s%.*s%s",
               d->name, d->class_name[0], deeper ? "; are the classes one folder deeper, as '" : "",
               deeper ? (int)(file - path) : 0, path, deeper ? "'?" : "");
}

int32_t dataset_label(const struct dataset *d, int64_t i)
{
    if (d->sample)
        return d->sample[i].label;
    return (int32_t)(hash_splitmix64((uint64_t)i) % (uint64_t)d->classes);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return hash_splitmix64(hash ^ value);
}

/* Sets *bytes to the size of image `i`. `root` is a descriptor of the open root folder if images
 * are files. */
static enum status size_of(const struct dataset *d, int root, int64_t i, int64_t *bytes)
{
    struct stat s;
    *bytes = d->sample[i].bytes;
    if (d->shards > 0)
        return STATUS_OK;
    if (root < 0 || fstatat(root, dataset_path(d, i), &s, 0) != 0)
        return status_fail(STATUS_IO, "cannot read '%s/%s': %s", d->root, dataset_path(d, i),
                           strerror(errno));
    *bytes = s.st_size;
    return STATUS_OK;
}

enum status dataset_fingerprint(const struct dataset *d, uint64_t *out)
{
    enum status st = STATUS_OK;
    uint64_t hash = mix((uint64_t)d->n, (uint64_t)d->classes);
    for (int c = 0; c < d->classes; c++)
        hash = mix(hash, hash_fnv1a64(d->class_name[c]));
    *out = hash;
    if (!d->sample)
        return STATUS_OK;
    int root = d->shards > 0 ? -1 : open(d->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t step = (d->n + FINGERPRINT_SIZES - 1) / FINGERPRINT_SIZES;
    for (int64_t i = 0; i < d->n && st == STATUS_OK; i++) {
        int64_t bytes = 0;
        hash = mix(hash, hash_fnv1a64(dataset_path(d, i)));
        if (i % step != 0)
            continue;
        st = size_of(d, root, i, &bytes);
        hash = mix(hash, (uint64_t)bytes);
    }
    fd_close(&root);
    *out = hash;
    return st;
}

void dataset_free(struct dataset *d)
{
    if (!d)
        return;
    for (int c = 0; c < d->classes; c++)
        free(d->class_name[c]);
    free(d->class_name);
    for (int i = 0; i < d->shards; i++)
        free(d->shard[i]);
    free(d->shard);
    free(d->sample);
    free(d->paths);
    free(d);
}
