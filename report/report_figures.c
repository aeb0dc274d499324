/* Writes the figures of a record, with captions. */
#include "report/report_scan.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

/* The pictures of plots/plot.h whose names say little. Those that a report shows first precede the
 * others. */
static const struct {
    const char *figure;
    bool first;
    const char *caption;
} known[] = {
    {"training_throughput.svg", true, "Images/s against devices"},
    {"training_time.svg", true, "Time of a run (equal steps) against devices"},
    {"efficiency.svg", true, "Efficiency against devices"},
    {"scaling_weak.svg", true, "Weak scaling"},
    {"scaling_strong.svg", true, "Strong scaling"},
    {"top1_val.svg", true, "Top-1 of validation against epochs"},
    {"top5_val.svg", false, "Top-5 of validation against epochs"},
    {"top1_train.svg", false, "Top-1 of training against epochs"},
    {"top5_train.svg", false, "Top-5 of training against epochs"},
    {"cell_split.svg", false, "Parts of a step of each cell"},
    {"IO.svg", false, "Input against devices"},
    {"io.svg", false, "Input: bytes and files read per second, decode time"},
    {"loss.svg", false, "Loss of training and validation"},
    {"loss_scale.svg", false, "Loss scale against steps"},
    {"lr.svg", false, "Learning rate against epochs"},
    {"time_to_accuracy.svg", false, "Top-1 of validation against time"},
    {"throughput.svg", false, "Images/s of each step against time"},
    {"split.svg", false, "Parts of a typical step"},
    {"telemetry.svg", false, "Power, temperature and clock against time"},
    {"ranks.svg", false, "Parts of the step of each rank"},
    {"overlap.svg", false, "Communication hidden, against bucket size"},
};
enum { KNOWN = sizeof known / sizeof *known };

static int index_of(const char *figure)
{
    int i = 0;
    while (i < KNOWN && strcmp(known[i].figure, figure) != 0)
        i++;
    return i;
}

bool figure_is_learning(const char *figure)
{
    static const char *const learning[] = {"loss",       "loss_scale", "time_to_accuracy",
                                           "top1_train", "top1_val",   "top5_train",
                                           "top5_val"};
    size_t n = strcspn(figure, ".");
    for (size_t i = 0; i < sizeof learning / sizeof *learning; i++)
        if (strncmp(learning[i], figure, n) == 0 && learning[i][n] == '\0')
            return true;
    return false;
}

static int by_place(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    int i = index_of(x), j = index_of(y);
    bool first = i < KNOWN && known[i].first, other = j < KNOWN && known[j].first;
    if (first != other)
        return other - first;
    return first && i != j ? i - j : strcmp(x, y);
}

/* Returns the link from a document to the file `path`. The link is relative if the file is in the
 * document's folder or below it; otherwise it is `path`. */
static const char *link_from(const char *document, const char *path)
{
    const char *slash = strrchr(document, '/');
    size_t n = slash ? (size_t)(slash - document) + 1 : 0;
    return strncmp(path, document, n) == 0 ? path + n : path;
}

static enum status write_figure(struct writer *w, const struct item *item, const char *figure)
{
    char path[REPORT_PATH_SIZE], name[256];
    int at = index_of(figure);
    snprintf(name, sizeof name, "%.*s", (int)strlen(figure) - 4, figure);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    TRY(path_format(path, sizeof path, "%s/%s", item->figures, figure));
    writer_figure(w, path, link_from(w->path, path), at < KNOWN ? known[at].caption : name);
    return STATUS_OK;
}

/* Sets the names of the pictures that the report shows, in their order. */
static enum status list(const struct item *item, struct words *shown)
{
    struct words all = {0};
    enum status st = STATUS_OK;
    bool is_dir;
    *shown = (struct words){0};
    TRY(path_look_dir(item->figures, &is_dir));
    if (!is_dir)
        return STATUS_OK;
    CHECK(dir_list(item->figures, ".svg", &all));
    if (all.n > 0)
        qsort(all.v, (size_t)all.n, sizeof *all.v, by_place);
    for (int i = 0; i < all.n; i++)
        if (item->kind != ITEM_RUNS || figure_is_learning(all.v[i]))
            CHECK(words_add(shown, "%s", all.v[i]));
done:
    words_free(&all);
    return st;
}

void figures_first(struct writer *w, const struct item *item)
{
    struct words names;
    enum status st = list(item, &names);
    if (st == STATUS_OK && names.n > 0)
        st = write_figure(w, item, names.v[0]);
    words_free(&names);
    w->st = w->st == STATUS_OK ? st : w->st;
}

void figures_rest(struct writer *w, const struct item *item)
{
    struct words names;
    enum status st = list(item, &names);
    if (st == STATUS_OK && names.n > 1) {
        writer_fold(w, names.n > 2 ? "%d more figures" : "%d more figure", names.n - 1);
        for (int i = 1; st == STATUS_OK && i < names.n; i++)
            st = write_figure(w, item, names.v[i]);
        writer_fold_end(w);
    }
    words_free(&names);
    w->st = w->st == STATUS_OK ? st : w->st;
}
