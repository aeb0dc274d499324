/* Chooses the checks to run, and plans their durations. */
#include "accept/accept_plan.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>

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

/* "40 s", "12 min", "3.5 h" */
static void say_seconds(double s, char *out, size_t size)
{
    if (s < 1000)
        snprintf(out, size, "%.0f s", s);
    else if (s < 100 * 60)
        snprintf(out, size, "%.0f min", s / 60);
    else
        snprintf(out, size, "%.1f h", s / 3600);
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
    char time[32];
    TRY(accept_plan_burn(spec, o, &burn));
    TRY(accept_plan_seconds(spec, o, &all));
    for (int i = 0, n; i < spec->n_checks; i += n) {
        const struct accept_check *check = &spec->check[i];
        n = check->together;
        if (!accept_plan_has(check, o))
            continue;
        say_seconds(seconds_of(check, burn), time, sizeof time);
        for (int k = 0; k < n; k++)
            TRY(print_check(spec, &check[k], o, time, k > 0, out));
    }
    say_seconds(all, time, sizeof time);
    fprintf(out, "%d checks, about %s\n", accept_plan_count(spec, o), time);
    return STATUS_OK;
}
