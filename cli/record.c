/* ampscale record: runs any program, and records metrics that it prints as a run. */
#include "results/record.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/text.h"
#include "cli/cli.h"
#include "compare/metric.h"
#include "results/environment.h"
#include "results/load.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A metric to find in the output, and its values. */
struct wanted {
    const char *regex; /* NULL: not wanted */
    regex_t pattern;
    double *value; /* (n) */
    int64_t n;
};

struct record_args {
    const char *name, *out, *commit; /* NULL: not given */
    struct wanted wanted[METRICS];
    char **argv; /* (argc), then NULL */
    bool paused; /* set by run_command */
    int argc;
};

/* "images_per_s=REGEX" */
static enum status take_metric(const struct setting *setting, const char *arg, void *args)
{
    char name[32], why[128] = "give NAME=REGEX";
    enum metric_id id;
    const char *equals = strchrnul(arg, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals - arg), arg);
    TRY(metric_find("--metric", name, &id));
    struct wanted *w = &((struct record_args *)args)->wanted[id];
    int error = *equals && !w->regex ? regcomp(&w->pattern, equals + 1, REG_EXTENDED) : 0;
    if (error != 0)
        regerror(error, &w->pattern, why, sizeof why);
    else if (w->regex)
        snprintf(why, sizeof why, "the metric is given twice");
    else if (*equals && w->pattern.re_nsub == 0)
        snprintf(why, sizeof why,
                 "no group; put the number in parentheses, as in '([0-9.]+) img/s'");
    else if (*equals) {
        w->regex = equals + 1;
        return STATUS_OK;
    }
    return status_fail(STATUS_USAGE, "--%s '%s': %s", setting->flag, arg, why);
}

#define SETTINGS_OF struct record_args
static const struct setting record_settings[] = {
    {"name", 0, "NAME", NULL, "Name of the configuration (default: the name of CMD's file)",
     AS_TEXT(name)},
    {"metric", 0, "NAME=REGEX", NULL,
     "Metric of 'ampscale compare', and a POSIX extended regular expression whose first group is "
     "its value in a line of the output; of the values of all lines, the median counts; may be "
     "given for several metrics",
     TAKEN_BY(take_metric)},
    {"commit", 0, "TEXT", NULL, "Version of the program, which 'compare' and 'trend' show",
     AS_TEXT(commit)},
    {"out", 0, "DIR", NULL, "Folder of the run; CMD's output is kept there in output.log",
     AS_TEXT(out)},
    {NULL, 0, "CMD", NULL, NULL, AS_ARGUMENTS(argv, argc), .traits = SETTING_REST},
    {0},
};

/* --- metrics --- */

/* Whether a number in `line` begins before `at`: "2,012.5" does before "012.5". */
static bool is_within_number(const char *line, regoff_t at)
{
    static const char joins[] = ",.'_eE";
    if (at <= 0)
        return false;
    return isdigit((unsigned char)line[at - 1]) ||
           (at > 1 && strchr(joins, line[at - 1]) && isdigit((unsigned char)line[at - 2]));
}

static enum status scan_line(struct record_args *a, const char *line)
{
    regmatch_t group[2];
    for (struct wanted *w = a->wanted; w < a->wanted + METRICS; w++) {
        if (!w->regex || regexec(&w->pattern, line, 2, group, 0) != 0)
            continue;
        char *end = NULL;
        double value = group[1].rm_so < 0 ? NAN : strtod(line + group[1].rm_so, &end);
        if (end != line + group[1].rm_eo || is_within_number(line, group[1].rm_so) ||
            !(value >= 0 && value <= RECORD_REAL_MAX))
            return status_fail(STATUS_DATA,
                               "the first group of '%s' is not a number from 0 on in '%.200s'",
                               w->regex, line);
        TRY(array_reserve(&w->value, w->n));
        w->value[w->n++] = value;
    }
    return STATUS_OK;
}

/* Finds the metrics in the output, whose descriptor it closes, and adds their medians to `values`.
 * The parts of a progress bar end with carriage returns, and count as lines. */
static enum status scan(struct record_args *a, int log, json_t *values)
{
    char *line = NULL;
    size_t size = 0;
    FILE *f = lseek(log, 0, SEEK_SET) == 0 ? fdopen(log, "r") : NULL;
    enum status st =
        f ? STATUS_OK : status_fail(STATUS_IO, "cannot read the output: %s", strerror(errno));
    while (st == STATUS_OK && getline(&line, &size, f) >= 0)
        for (char *rest = line, *part; st == STATUS_OK && (part = strsep(&rest, "\r\n"));)
            st = scan_line(a, part);
    free(line);
    if (f)
        fclose(f);
    for (int i = 0; i < METRICS && st == STATUS_OK; i++) {
        struct wanted *w = &a->wanted[i];
        if (w->regex && w->n == 0)
            st = status_fail(STATUS_DATA, "no line of the output matches --metric '%s=%s'",
                             metrics[i].name, w->regex);
        else if (w->regex)
            json_put(values, metrics[i].name, json_finite(stats_median(w->value, w->n)));
    }
    return st;
}

/* --- running the command --- */

/* The thread that copies the command's output from a pipe to the log, and from there to stdout. A
 * log that the command itself had as its stdout would be emptied by `echo >/dev/stdout`; a reader
 * of stdout that takes its time must not delay the command. */
struct copy {
    int pipe[2], log;
    off_t written, shown; /* bytes of the log */
    atomic_bool ended;    /* whether the command has ended */
    int error;            /* errno of the first failure to write to the log; 0: none */
};

/* Shows what the log has; unless `all`, only what stdout takes at once. */
static void show(struct copy *c, bool all)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    char part[PIPE_BUF];
    ssize_t n = 1;
    while (n > 0 && c->shown < c->written && (all || poll(&out, 1, 0) > 0)) {
        n = pread(c->log, part, sizeof part, c->shown);
        fwrite(part, 1, n > 0 ? (size_t)n : 0, stdout);
        fflush(stdout);
        c->shown += n > 0 ? n : 0;
    }
}

static void *copy_output(void *state)
{
    struct copy *c = state;
    struct pollfd p = {.fd = c->pipe[0], .events = POLLIN};
    char part[65536];
    for (bool last = false; !last;) {
        last = atomic_load(&c->ended); /* before reading, so that the end is read too */
        for (int k = 0; k < 16 && poll(&p, 1, last ? 0 : 20) > 0; k++) { /* a pipe's contents */
            ssize_t put, n = read(p.fd, part, sizeof part);
            for (ssize_t at = 0; at < n && !c->error; at += put, c->written += put)
                if ((put = write(c->log, part + at, (size_t)(n - at))) < 0)
                    c->error = errno, put = 0;
            show(c, false);
        }
        show(c, last);
    }
    return NULL;
}

/* Runs the command, and copies its output to the log, which is open as `fd`, and to stdout. */
static enum status run_command(struct record_args *a, const char *log, int fd,
                               struct process_end *end)
{
    struct process_signals signals = {.fd = -1};
    struct copy copy = {.pipe = {-1, -1}, .log = fd};
    pthread_t thread;
    struct stat s;
    int error;
    enum status st;
    if (pipe2(copy.pipe, O_CLOEXEC) != 0)
        CHECK(status_fail(STATUS_IO, "cannot open a pipe: %s", strerror(errno)));
    CHECK(process_signals_open(&signals));
    error = pthread_create(&thread, NULL, copy_output, &copy);
    if (error)
        CHECK(status_fail(STATUS_IO, "cannot copy '%s': %s", log, strerror(error)));
    st = process_run(
        &(struct process_config){
            .argv = a->argv, .output = copy.pipe[1], .signals = &signals, .grace_s = 30},
        end);
    atomic_store(&copy.ended, true);
    pthread_join(thread, NULL);
    a->paused = stop_was_paused();
    if (st == STATUS_OK && copy.error)
        st = status_fail(STATUS_IO, "cannot write '%s': %s", log, strerror(copy.error));
    else if (st == STATUS_OK &&
             (fstat(fd, &s) != 0 || s.st_nlink == 0 || s.st_size != copy.written))
        st =
            status_fail(STATUS_IO, "cannot write '%s': another program removed or changed it", log);
done:
    fd_close(&copy.pipe[0]);
    fd_close(&copy.pipe[1]);
    process_signals_close(&signals);
    return st;
}

/* Runs the command in the folder of an open record, and completes the record. */
static enum status complete(struct record_args *a, struct record *record, int *exit_code)
{
    char log[4096], noise[NOISE_TEXT_MAX];
    struct load_meter meter;
    struct process_end end;
    json_t *summary = NULL;
    int fd;
    enum status st;
    TRY(path_format(log, sizeof log, "%s/output.log", a->out));
    TRY(log_open(log, O_RDWR | O_TRUNC | O_APPEND, &fd));
    load_open(&meter, NULL, NULL);
    struct load begin = load_read(&meter);
    CHECK(run_command(a, log, fd, &end));
    struct load after = load_read(&meter);
    struct host_noise between = load_between(&begin, &after);
    *exit_code = stop_requested() ? 0 : end.code; /* 0: that of the status */
    if (stop_requested() || end.code != 0)
        CHECK(status_fail(stop_requested() ? STATUS_INTERRUPTED : STATUS_IO,
                          "'%s' %s with exit code %d: the run in '%s' is not complete", a->argv[0],
                          stop_requested() ? "was interrupted and ended" : "ended", end.code,
                          a->out));
    summary =
        json_new("{s:s, s:{}, s:o, s:o*}", "ended_by", "command", "metrics", "noise",
                 host_noise_json(&between), "commit", a->commit ? text_json(a->commit) : NULL);
    /* The seconds of a command include those in which this process was paused. */
    if (a->paused)
        json_put(summary, "paused", json_true());
    else
        json_put(json_object_get(summary, "metrics"), metrics[METRIC_SECONDS].name,
                 json_finite(end.seconds));
    st = scan(a, fd, json_object_get(summary, "metrics"));
    fd = -1;
    CHECK(st);
    CHECK(record_finish(record, summary));
    if (a->paused)
        fprintf(stderr, "ampscale: the run was paused: its 'seconds' are not recorded\n");
    if (noise_recorded(summary, noise))
        fprintf(stderr, "ampscale: the run was disturbed: %s; repeat on an idle machine\n", noise);
done:
    fd_close(&fd);
    json_decref(summary);
    return st;
}

/* --- the record --- */

static enum status record(struct record_args *a, int argc, char **argv, int *exit_code)
{
    char device[512];
    struct record *record;
    enum status st, closed;
    if (!a->out)
        return status_fail(STATUS_USAGE, "no folder for the run: give --out DIR");
    if (a->argc == 0)
        return status_fail(STATUS_USAGE, "no command: give it last, after '--'");
    environment_gpus("Model:", device, sizeof device);
    text_append(device, sizeof device, *device ? "" : "processor");
    json_t *config =
        json_new("{s:o, s:[], s:{}}", "name", text_json(a->name ? a->name : basename(a->argv[0])),
                 "command", "metrics");
    for (int i = 0; i < a->argc; i++)
        json_add(json_object_get(config, "command"), text_json(a->argv[i]));
    for (int i = 0; i < METRICS; i++)
        if (a->wanted[i].regex)
            json_put(json_object_get(config, "metrics"), metrics[i].name,
                     text_json(a->wanted[i].regex));
    const struct run_info info = {.argc = argc, .argv = argv, .device = device, .config = config};
    CHECK(record_create(a->out, &info, &record));
    st = complete(a, record, exit_code);
    if (st != STATUS_OK)
        record_fail(record, st, status_message());
    closed = record_close(record);
    st = st == STATUS_OK ? closed : st;
done:
    json_decref(config);
    return st;
}

static int run_record(const struct cli_command *c, int argc, char **argv)
{
    struct record_args *a = c->config;
    int exit_code, command = 0;
    if (cli_read(c, argc, argv, &exit_code))
        exit_code = cli_end(record(a, argc, argv, &command));
    for (struct wanted *w = a->wanted; w < a->wanted + METRICS; w++) {
        if (w->regex)
            regfree(&w->pattern);
        free(w->value);
    }
    return command != 0 ? command : exit_code;
}

const struct cli_command cmd_record = {
    .name = "record",
    .summary = "run any program, and record metrics that it prints",
    .arguments = "[--] CMD ARG...",
    .doc =
        "Runs CMD, shows its output, and records the run in a folder that 'ampscale compare', "
        "'report' and, through a history, 'trend' read: metrics found in the output, the duration "
        "(metric seconds), the host, and whether other work disturbed the run. Runs are compared "
        "if they agree in name, arguments and hardware. CMD's stdin is empty.\vExit status: that "
        "of CMD, or 128 plus the number of the signal that ended it; 5 if CMD succeeded, but its "
        "output lacks a metric; 2 on wrong usage. Without success, the run is incomplete.",
    .example =
        {{"Record a run of a program that prints '512.3 img/s' in each step (needs train.sh)",
          "ampscale record --name resnet50 --metric \"images_per_s=([0-9.]+) img/s\" --out "
          "runs/new/r1 -- ./train.sh"},
         {"Record the duration of a program", "ampscale record --out runs/sleep -- sleep 0.1"}},
    .part = {{record_settings}},
    .output = OUTPUT_WAITS,
    .config = &(struct record_args){0},
    .run = run_record};
