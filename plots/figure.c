/* Tables and settings for gnuplot scripts. */
#include "plots/figure.h"

#include "results/text.h"

#include <math.h>

enum status figure_table(const struct drawing *d, const struct figure *f, int i,
                         struct atomic_file *table)
{
    char path[4096];
    TRY(path_format(path, sizeof path, "%s/%s-%02d.dat", d->data, f->name, i + 1));
    return atomic_file_open(table, path);
}

void figure_set_text(FILE *vars, const char *name, const char *text)
{
    char clean[512];
    text_clean(clean, sizeof clean, text);
    fprintf(vars, "%s = '", name);
    for (const char *c = clean; *c; c++)
        fputs((char[3]){*c, *c == '\'' ? '\'' : '\0'}, vars);
    fputs("'\n", vars);
}

void figure_set(FILE *vars, const char *name, double value)
{
    if (isnan(value))
        fprintf(vars, "%s = NaN\n", name);
    else
        fprintf(vars, "%s = %.9g\n", name, value);
}

void figure_set_runs(FILE *vars, const char *name, const bool has[], int n)
{
    fprintf(vars, "%s = '", name);
    const char *space = "";
    for (int i = 0; i < n; i++) {
        if (!has[i])
            continue;
        fprintf(vars, "%s%d", space, i + 1);
        space = " ";
    }
    fputs("'\n", vars);
}

double figure_set_time(FILE *vars, const struct drawing *d)
{
    double longest = 0;
    for (int i = 0; i < d->n; i++)
        longest = fmax(longest, d->run[i]->elapsed);
    bool seconds = longest < 180, minutes = longest < 10 * 3600;
    figure_set_text(vars, "time_label",
                    seconds   ? "Time (s)"
                    : minutes ? "Time (minutes)"
                              : "Time (hours)");
    return seconds ? 1 : minutes ? 60 : 3600;
}
