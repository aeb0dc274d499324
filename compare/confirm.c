/* Running suspicious cells again. */
#include "compare/confirm.h"

#include "base/file.h"
#include "compare/formats.h"
#include "compare/repeats.h"

#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* What the placeholders stand for in one run. */
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

/* A word with its placeholders replaced; the caller frees. NULL without memory. */
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

static void free_words(char **argv)
{
    for (int i = 0; argv[i]; i++)
        free(argv[i]);
}

static enum status split(const char *command, const struct place *p,
                         char *argv[CONFIRM_WORDS_MAX + 1])
{
    int n = 0;
    argv[0] = NULL;
    for (const char *at = command; *(at += strspn(at, " \t\n"));) {
        size_t length = strcspn(at, " \t\n");
        if (n == CONFIRM_WORDS_MAX)
            return status_fail(STATUS_USAGE, "--confirm: more than %d words", CONFIRM_WORDS_MAX);
        argv[n] = fill_in(at, length, p);
        if (!argv[n])
            return status_fail(STATUS_OOM, "no memory for a command");
        argv[++n] = NULL;
        at += length;
    }
    return STATUS_OK;
}

/* What the command prints goes to stderr: stdout is for the comparison. */
static enum status start(char **argv, pid_t *pid)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, 2, 1);
        if (error == 0)
            error = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    return error == 0 ? STATUS_OK
                      : status_fail(STATUS_IO, "cannot run '%s': %s", argv[0], strerror(error));
}

static enum status run_once(const char *command, const struct place *p)
{
    char *argv[CONFIRM_WORDS_MAX + 1];
    int how = 0;
    pid_t pid;
    enum status st;
    CHECK(split(command, p, argv));
    CHECK(start(argv, &pid));
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR) {
            st = status_fail(STATUS_IO, "cannot wait for '%s': %s", argv[0], strerror(errno));
            goto done;
        }
    if (how != 0)
        st = status_fail(STATUS_DATA, "--confirm: '%s' %s %d, for '%s'", argv[0],
                         WIFEXITED(how) ? "exited with" : "was ended by signal",
                         WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how), p->out);
done:
    free_words(argv);
    return st;
}

/* A cell's name as that of a folder, which begins with no dot. */
static void file_name(const char *name, char out[COMPARE_NAME_SIZE])
{
    snprintf(out, COMPARE_NAME_SIZE, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && (*c != '.' || c == out))
            *c = '-';
}

/* With `both`, the two sides in turns; else the new one. */
static enum status run_rounds(const struct compare_confirm *c, const char *name, int64_t rounds,
                              bool both)
{
    static const char *const sides[] = {"base", "new"};
    for (int64_t i = 0; i < rounds; i++)
        for (int k = 0; k < (both ? 2 : 1); k++) {
            /* Neither side is always the first. */
            struct place p = {.name = name, .side = sides[both ? (i + k) % 2 : 1]};
            TRY(path_format(p.out, sizeof p.out, "%s/%s/%s/r%03d", c->dir, name, p.side,
                            (int)i + 1));
            TRY(run_once(c->command, &p));
        }
    return STATUS_OK;
}

/* Against the base that the cell was held against, or one that was measured again with it. */
static enum status judge_again(const struct compare_confirm *c, const struct compare_config *config,
                               const struct compare_cell *cell, const char *name, bool both,
                               struct compare_report *again)
{
    char paths[2][REPEATS_PATH_SIZE], *base = paths[0], *new = paths[1];
    TRY(path_format(paths[1], sizeof paths[1], "%s/%s/new", c->dir, name));
    if (!both && c->history) {
        /* The runs that were suspicious may be in the history, and are no base of a second look. */
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

/* Whether the metric was judged, and found to be no worse. */
static bool is_cleared(const struct compare_cell *c, enum metric_id id)
{
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i].metric == id)
            return c->result[i].verdict == COMPARE_SAME || c->result[i].verdict == COMPARE_BETTER;
    return false;
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
    fprintf(out, "Measured again, into '%s':\n", c->dir);
    compare_print(&again, out);
    enum status st = STATUS_OK;
    if (again.verdicts[COMPARE_REGRESSION] == 0 && !compare_passed(&again))
        st = status_fail(STATUS_DATA, "what was measured again could not be judged: %s",
                         again.cell[0].missing[0] ? again.cell[0].missing
                                                  : "its configuration differs");
    for (int i = 0; i < cell->n_results && st == STATUS_OK; i++) {
        struct compare_result *r = &cell->result[i];
        if (r->verdict == COMPARE_REGRESSION && is_cleared(&again.cell[0], r->metric)) {
            r->verdict = COMPARE_UNCONFIRMED;
            report->verdicts[COMPARE_REGRESSION]--;
            report->verdicts[COMPARE_UNCONFIRMED]++;
        }
    }
    compare_report_free(&again);
    return st;
}

enum status compare_confirm(const struct compare_confirm *c, const struct compare_config *config,
                            struct compare_report *report, FILE *out)
{
    if (!strstr(c->command, "{out}"))
        return status_fail(STATUS_USAGE,
                           "--confirm '%s': there is no {out} for the folder of a run", c->command);
    if (path_exists(c->dir))
        return status_fail(STATUS_USAGE, "'%s' exists: give --confirm-out a new folder", c->dir);
    for (int64_t i = 0; i < report->n_cells; i++)
        if (regressed(&report->cell[i]))
            TRY(confirm_cell(c, config, &report->cell[i], report, out));
    return STATUS_OK;
}
