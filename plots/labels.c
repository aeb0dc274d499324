/* Makes names for runs in legends. */
#include "base/text.h"
#include "plots/figure.h"
#include "results/run.h"

#include <inttypes.h>
#include <string.h>

/* Longest name of a folder in a legend. A longer name is cut in its middle, because names usually
 * differ at the beginning or the end. */
enum { NAME_BYTES = 32, NAME_HEAD = 12 };

static void shorten(char out[NAME_BYTES + 4], const char *name)
{
    size_t len = strlen(name);
    if (len <= NAME_BYTES) {
        strcpy(out, name);
        return;
    }
    size_t tail = len - (NAME_BYTES - NAME_HEAD - 3);
    while (((unsigned char)name[tail] & 0xc0) == 0x80)
        tail++;
    text_clean(out, NAME_HEAD + 1, name);
    text_append(out, NAME_BYTES + 4, "...%s", name + tail);
}

static void label_one(const struct run *run, char label[FIGURE_LABEL_MAX])
{
    char arch[16], precision[8], name[NAME_BYTES + 4], batch[16] = "";
    text_clean(arch, sizeof arch, run_config_text(run, "arch", ""));
    text_clean(precision, sizeof precision, run_config_text(run, "precision", ""));
    int64_t size = run_config_count(run, "batch_size", 0);
    if (size > 0 && size < 10000000)
        snprintf(batch, sizeof batch, " b%" PRId64, size);
    shorten(name, run->name);
    snprintf(label, FIGURE_LABEL_MAX, "%s%s%s%s%s%s", arch, precision[0] ? " " : "", precision,
             batch, arch[0] || precision[0] || batch[0] ? " \u00b7 " : "", name);
}

void labels_make(const struct run *const *run, int n, char (*label)[FIGURE_LABEL_MAX])
{
    for (int i = 0; i < n; i++)
        label_one(run[i], label[i]);
    for (int i = 0; i < n; i++) {
        int same = 1;
        for (int k = i + 1; k < n; k++)
            if (strcmp(label[k], label[i]) == 0)
                text_append(label[k], FIGURE_LABEL_MAX, " (%d)", ++same);
    }
}

void labels_look(struct drawing *d)
{
    palette_take(d->options->palette, d->n, (const char(*)[FIGURE_LABEL_MAX])d->label, d->look);
}

/* Returns the first run of the series of run i. Runs that differ only in their seeds are a series.
 * If an earlier run of the series has the seed of run i, returns i. */
static int series_of(const char (*key)[RUN_KEY_SIZE], const int64_t *seed, int i)
{
    int first = i;
    for (int k = i - 1; k >= 0; k--) {
        if (strcmp(key[k], key[i]) != 0)
            continue;
        if (seed[k] == seed[i])
            return i;
        first = k;
    }
    return first;
}

void labels_look_runs(struct drawing *d)
{
    char key[PLOT_MAX_RUNS][RUN_KEY_SIZE], name[PLOT_MAX_RUNS][FIGURE_LABEL_MAX];
    int64_t seed[PLOT_MAX_RUNS];
    bool is_one = !d->options->series; /* if there is only one series, its runs have different
                                        * colours */
    for (int i = 0; i < d->n; i++) {
        run_key(d->run[i], key[i], sizeof key[i]);
        seed[i] = run_config_count(d->run[i], "seed", 0);
        if (d->options->series)
            text_clean(name[i], sizeof name[i], d->options->series[i]);
        else
            strcpy(name[i], d->label[series_of((const char(*)[RUN_KEY_SIZE])key, seed, i)]);
        is_one = is_one && strcmp(name[i], name[0]) == 0;
    }
    for (int i = 0; i < d->n; i++) {
        if (is_one)
            strcpy(name[i], d->label[i]);
        d->nth[i] = 0;
        for (int k = 0; k < i; k++)
            d->nth[i] += strcmp(name[k], name[i]) == 0;
    }
    palette_take(d->options->palette, d->n, (const char(*)[FIGURE_LABEL_MAX])name, d->look);
}
