/* Chooses the checks to run, makes their commands, and plans their durations. */
#include "accept/accept_suite.h"

#include "accept/accept_kind.h"
#include "base/digits.h"
#include "base/file.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds the argument's flag and the path of the output file that the first repeat of `check` wrote.
 * Adds nothing if there is no such file: the command also runs without the flag. */
static enum status add_output(const struct accept_arg *a, const char *check, const char *dir,
                              struct words *w)
{
    char path[ACCEPT_PATH_SIZE];
    const char *end = dir + strlen(dir);
    bool exists;
    if (!check)
        return STATUS_OK;
    for (int up = 0; up < 2; up++) /* shortens <node>/checks/<check>/r<k> to <node>/checks */
        while (end > dir && *--end != '/')
            continue;
    TRY(path_format(path, sizeof path, "%.*s/%s/r1/output.json", (int)(end - dir), dir, check));
    TRY(path_look(path, &exists));
    return exists ? words_add_all(w, a->flag, path, NULL) : STATUS_OK;
}

static enum status add_arg(const struct accept_arg *a, const struct accept_spec *spec,
                           const json_t *args, const char *dir, struct words *w)
{
    const json_t *value = json_object_get(args, a->name);
    if (a->type == ACCEPT_ARG_PEER)
        return json_is_true(value) && spec->peer ? words_add_all(w, a->flag, spec->peer, NULL)
                                                 : STATUS_OK;
    if (a->type == ACCEPT_ARG_OUTPUT)
        return add_output(a, json_string_value(value), dir, w);
    if (a->type == ACCEPT_ARG_SWITCH)
        return json_is_true(value) ? words_add(w, "%s", a->flag) : STATUS_OK;
    if (!value && !a->otherwise)
        return STATUS_OK;
    if (a->flag)
        TRY(words_add(w, "%s", a->flag));
    if (json_is_integer(value))
        return words_add(w, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return words_add(w, "%s", value ? json_string_value(value) : a->otherwise);
}

/* A command's time budget is its time limit minus this many seconds, or minus half of the limit if
 * that is less. In the time after the budget, the command finishes work in progress and prints its
 * results. */
enum { MARGIN_SECONDS = 15 };

/* Number of processes of a check: its argument "ranks", by default one per device. It is 1 for a
 * kind without that argument, and for a check of a single device. */
static int64_t ranks_of(const struct accept_spec *spec, const struct accept_check *check)
{
    const json_t *ranks = json_object_get(check->args, ACCEPT_RANKS_ARG);
    if (!check->kind->ranks || check->device >= 0)
        return 1;
    return ranks ? json_integer_value(ranks) : spec->n_devices;
}

/* "cuda:0,1,2" */
static enum status add_gpus(const struct accept_spec *spec, struct words *w)
{
    char list[8 + 3 * ACCEPT_DEVICES_MAX] = "cuda:0";
    for (int i = 1; i < spec->n_devices; i++)
        text_append(list, sizeof list, ",%d", i);
    return words_add_all(w, "--devices", list, NULL);
}

enum status accept_command(const struct accept_spec *spec, const struct accept_check *check,
                           const char *program, const char *dir, int64_t room_s, struct words *w)
{
    const struct accept_kind *kind = check->kind;
    int64_t ranks = ranks_of(spec, check);
    char record[ACCEPT_PATH_SIZE];
    bool begun = false;
    TRY(path_format(record, sizeof record, "%s/work/%s", dir, kind->work ? kind->work : ""));
    TRY(words_add(w, "%s", program));
    if (ranks > 1) {
        TRY(words_add(w, "launch"));
        TRY(words_add_flag(w, "--nproc", "%" PRId64, ranks));
        TRY(words_add_flag(w, "--log-dir", "%s/ranks", dir));
        TRY(words_add(w, "--"));
    }
    for (const char *const *word = kind->words; *word; word++)
        TRY(words_add(w, "%s", *word));
    for (const struct accept_arg *a = kind->arg; a->name; a++)
        TRY(add_arg(a, spec, check->args, dir, w));
    if (kind->on_device) {
        TRY(check->device < 0
                ? words_add_all(w, "--devices", spec->device, NULL)
                : words_add_flag(w, "--devices", "%s:%d", spec->device, check->device));
    }
    if (kind->on_gpus)
        TRY(add_gpus(spec, w));
    if (kind->budget) {
        int64_t half = (room_s + 1) / 2;
        TRY(words_add_flag(w, kind->budget, "%" PRId64,
                           half < MARGIN_SECONDS ? half : room_s - MARGIN_SECONDS));
    }
    if (kind->work)
        TRY(words_add_flag(w, "--out", "%s/work", dir));
    if (kind->resumes)
        TRY(path_look(record, &begun));
    if (begun)
        TRY(words_add(w, "--resume"));
    return kind->folder ? words_add_flag(w, "--out", "%s/run", dir) : STATUS_OK;
}

enum status accept_read_repeat(const struct accept_spec *spec, const struct accept_check *check,
                               const json_t *output, const char *dir, struct accept_result *r)
{
    const struct accept_output o = {.json = output,
                                    .dir = dir,
                                    .args = check->args,
                                    .device = spec->device,
                                    .only_device = spec->only_device,
                                    .n_devices = spec->n_devices,
                                    .together = check->burn && check->device >= 0,
                                    .check_device = check->device};
    return accept_read(check->kind->reading, &o, r);
}

/* --- the plan --- */

bool accept_plan_has(const struct accept_check *check, const struct accept_options *o)
{
    return check->asked && check->level <= o->level;
}

int accept_plan_count(const struct accept_spec *spec, const struct accept_options *o)
{
    int n = 0;
    for (int i = 0; i < spec->n_checks; i++)
        n += accept_plan_has(&spec->check[i], o);
    return n;
}

/* Number of burn-in checks that run one after the other. Checks that run at the same time count as
 * one check. */
static int count_burns(const struct accept_spec *spec, const struct accept_options *o)
{
    int n = 0;
    for (int i = 0; i < spec->n_checks; i += spec->check[i].together)
        n += accept_plan_has(&spec->check[i], o) && spec->check[i].burn;
    return n;
}

enum status accept_plan_burn(const struct accept_spec *spec, const struct accept_options *o,
                             double *seconds)
{
    int n = count_burns(spec, o);
    *seconds = n > 0 ? o->hours * 3600 / n : 0;
    if (n == 0 && o->hours > 0)
        return status_fail(
            STATUS_USAGE,
            "--hours: '%s' has no burn-in check up to level %d; give a higher --level", spec->name,
            o->level);
    return STATUS_OK;
}

/* Expected duration of a check in seconds. Checks that run at the same time have the same expected
 * duration, and the caller adds it only once. */
static double seconds_of(const struct accept_check *check, double burn)
{
    return fmax(check->seconds * check->repeats, check->burn ? burn : 0);
}

enum status accept_plan_seconds(const struct accept_spec *spec, const struct accept_options *o,
                                double *seconds)
{
    double burn;
    TRY(accept_plan_burn(spec, o, &burn));
    *seconds = 0;
    for (int i = 0; i < spec->n_checks; i += spec->check[i].together)
        if (accept_plan_has(&spec->check[i], o))
            *seconds += seconds_of(&spec->check[i], burn);
    return STATUS_OK;
}

int64_t accept_plan_room(double left, double planned, double later, int64_t limit_s)
{
    double room = fmax(left - fmin(later, left) / 2, fmin(planned, left));
    return room < (double)limit_s ? (int64_t)ceil(room) : limit_s;
}

/* Prints one check of the plan. `beside`: it runs at the same time as the check before it. */
static enum status print_check(const struct accept_spec *spec, const struct accept_check *check,
                               const struct accept_options *o, const char *time, bool beside,
                               FILE *out)
{
    char dir[ACCEPT_PATH_SIZE], *line = NULL;
    struct words command = {0};
    enum status st;
    CHECK(path_format(dir, sizeof dir, "%s/checks/%s/r1", o->dir, check->name));
    CHECK(accept_command(spec, check, "ampscale", dir, check->limit_s, &command));
    CHECK(words_shell(&command, &line));
    fprintf(out, "%-20s level %d, %d x, about %s%s\n    %s\n", check->name, check->level,
            check->repeats, time, beside ? ", at the same time" : "", line);
done:
    free(line);
    words_free(&command);
    return st;
}

enum status accept_plan_print(const struct accept_spec *spec, const struct accept_options *o,
                              FILE *out)
{
    double all, burn;
    char time[DIGITS_SIZE];
    TRY(accept_plan_burn(spec, o, &burn));
    TRY(accept_plan_seconds(spec, o, &all));
    for (int i = 0, n; i < spec->n_checks; i += n) {
        const struct accept_check *check = &spec->check[i];
        n = check->together;
        if (!accept_plan_has(check, o))
            continue;
        digits_duration(time, seconds_of(check, burn), 1000);
        for (int k = 0; k < n; k++)
            TRY(print_check(spec, &check[k], o, time, k > 0, out));
    }
    digits_duration(time, all, 1000);
    fprintf(out, "%d checks, about %s\n", accept_plan_count(spec, o), time);
    return STATUS_OK;
}
