/* Repeats the runs of cells that have a suspected regression. */
#include "compare/compare_confirm.h"

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "compare/compare_formats.h"
#include "compare/repeats.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The values that replace the placeholders in one run. */
struct place {
    const char *name, *side;
    char out[REPEATS_PATH_SIZE];
};

static const char *value_of(const struct place *p, const char *word, size_t *length)
{
    const struct {
        const char *key, *value;
    } keys[] = {{"{out}", p->out}, {"{name}", p->name}, {"{side}", p->side}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        *length = strlen(keys[i].key);
        if (strncmp(word, keys[i].key, *length) == 0)
            return keys[i].value;
    }
    return NULL;
}

/* Returns a copy of the word with its placeholders replaced, or NULL if memory ran out. The caller
 * frees the copy. */
static char *fill_in(const char *word, size_t n, const struct place *p)
{
    char *text = NULL;
    size_t size = 0, length;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (const char *at = word; at < word + n;) {
        const char *value = value_of(p, at, &length);
        if (value)
            fputs(value, out);
        else
            fputc(*at, out);
        at += value ? length : 1;
    }
    return fclose(out) == 0 ? text : NULL;
}

static enum status split(const char *command, const struct place *p,
                         char *argv[CONFIRM_WORDS_MAX + 1])
{
    int n = 0;
    argv[0] = NULL;
    for (const char *at = command; *(at += strspn(at, " \t\n"));) {
        size_t length = strcspn(at, " \t\n");
        if (n == CONFIRM_WORDS_MAX)
            return status_fail(STATUS_USAGE, "--confirm: the command has more than %d words",
                               CONFIRM_WORDS_MAX);
        argv[n] = fill_in(at, length, p);
        if (!argv[n])
            return status_fail(STATUS_OOM, "no memory for a command");
        argv[++n] = NULL;
        at += length;
    }
    return STATUS_OK;
}

/* Runs the command once. Its output goes to stderr, because stdout is for the comparison. */
static enum status run_once(const char *command, const struct place *p)
{
    char *argv[CONFIRM_WORDS_MAX + 1];
    int how = 0;
    enum status st;
    CHECK(split(command, p, argv));
    CHECK(process_call(argv, NULL, STDERR_FILENO, &how));
    if (how != 0)
        st = status_fail(STATUS_DATA, "--confirm: '%s' %s %d, for '%s'", argv[0],
                         WIFEXITED(how) ? "exited with" : "was ended by signal",
                         WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how), p->out);
done:
    for (int i = 0; argv[i]; i++)
        free(argv[i]);
    return st;
}

/* Makes the name of a folder from the name of a cell. The result does not begin with a dot. */
static void file_name(const char *name, char out[COMPARE_NAME_SIZE])
{
    snprintf(out, COMPARE_NAME_SIZE, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && (*c != '.' || c == out))
            *c = '-';
}

/* Runs the repeats. If `both`, runs of the two sides alternate; otherwise only the new side is
 * run. */
static enum status run_rounds(const struct compare_confirm *c, const char *name, int64_t rounds,
                              bool both)
{
    static const char *const sides[] = {"base", "new"};
    for (int64_t i = 0; i < rounds; i++)
        for (int k = 0; k < (both ? 2 : 1); k++) {
            /* The base runs first if i is even, and the new side runs first if i is odd. */
            struct place p = {.name = name, .side = sides[both ? (i + k) % 2 : 1]};
            TRY(path_format(p.out, sizeof p.out, "%s/%s/%s/r%03d", c->dir, name, p.side,
                            (int)i + 1));
            TRY(run_once(c->command, &p));
        }
    return STATUS_OK;
}

/* Compares the repeated runs of the new side: with the repeated runs of the base if `both`, else
 * with the original runs of the base. */
static enum status judge_again(const struct compare_confirm *c, const struct compare_config *config,
                               const struct compare_cell *cell, const char *name, bool both,
                               struct compare_report *again)
{
    char paths[2][REPEATS_PATH_SIZE], *base = paths[0], *new = paths[1];
    TRY(path_format(paths[1], sizeof paths[1], "%s/%s/new", c->dir, name));
    if (!both && c->history) {
        /* The suspicious runs may be in the history, and must not be part of the base. */
        const struct compare_rolling rolling = {c->history, c->last, c->new, c->n_new};
        return compare_compare_history(&rolling, &new, 1, config, again);
    }
    if (!both && !repeats_is_study(c->base[0]))
        return compare_compare(c->base, c->n_base, &new, 1, config, again);
    if (both)
        TRY(path_format(paths[0], sizeof paths[0], "%s/%s/base", c->dir, name));
    else
        TRY(path_format(paths[0], sizeof paths[0], "%s/cells/%s", c->base[0], cell->name));
    return compare_compare(&base, 1, &new, 1, config, again);
}

static bool regressed(const struct compare_cell *c)
{
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].verdict == COMPARE_REGRESSION)
            return true;
    return false;
}

/* Returns the verdict on a regression after the second measurement. */
static enum compare_verdict verdict_again(const struct compare_cell *c, enum metric_id id)
{
    for (int i = 0; i < c->n_results; i++) {
        enum compare_verdict v = c->result[i].verdict;
        if (c->result[i].metric != id)
            continue;
        if (v == COMPARE_EQUIVALENT || v == COMPARE_NOT_WORSE || v == COMPARE_BETTER)
            return COMPARE_UNCONFIRMED;
        return v == COMPARE_INCONCLUSIVE ? v : COMPARE_REGRESSION;
    }
    return COMPARE_REGRESSION;
}

static enum status confirm_cell(const struct compare_confirm *c,
                                const struct compare_config *config, struct compare_cell *cell,
                                struct compare_report *report, FILE *out)
{
    char name[COMPARE_NAME_SIZE];
    struct compare_report again;
    bool both = strstr(c->command, "{side}") != NULL;
    file_name(cell->name, name);
    TRY(run_rounds(c, name, cell->n_new, both));
    TRY(judge_again(c, config, cell, name, both, &again));
    text_print(out, "Repeated measurements, in '%s':", c->dir);
    compare_print(&again, out);
    enum status st = STATUS_OK;
    if (again.verdicts[COMPARE_REGRESSION] == 0 && again.inconclusive == 0 &&
        !compare_passed(&again))
        st = status_fail(STATUS_DATA, "the repeated measurements could not be judged: %s",
                         again.cell[0].missing[0] ? again.cell[0].missing
                                                  : "their configuration differs");
    for (int i = 0; i < cell->n_results && st == STATUS_OK; i++) {
        struct compare_result *r = &cell->result[i];
        if (r->verdict != COMPARE_REGRESSION)
            continue;
        r->verdict = verdict_again(&again.cell[0], r->metric);
        report->verdicts[COMPARE_REGRESSION]--;
        report->verdicts[r->verdict]++;
        report->inconclusive += r->verdict == COMPARE_INCONCLUSIVE;
    }
    compare_report_free(&again);
    return st;
}

enum status compare_confirm(const struct compare_confirm *c, const struct compare_config *config,
                            struct compare_report *report, FILE *out)
{
    if (!strstr(c->command, "{out}"))
        return status_fail(
            STATUS_USAGE,
            "--confirm '%s': the command must contain {out}, which becomes the folder of the run",
            c->command);
    if (path_exists(c->dir))
        return status_fail(STATUS_USAGE, "'%s' exists: give a new folder by --confirm-out", c->dir);
    for (int64_t i = 0; i < report->n_cells; i++)
        if (regressed(&report->cell[i]))
            TRY(confirm_cell(c, config, &report->cell[i], report, out));
    return STATUS_OK;
}
