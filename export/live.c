/* Exports a run while it trains. */
#include "export/live.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "export/prometheus.h"
#include "export/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The intervals between writes. TensorBoard reads a file every few seconds, Prometheus every
 * fifteen seconds. */
#define TENSORBOARD_NS UINT64_C(1000000000)
#define PROMETHEUS_NS  UINT64_C(5000000000)

struct live {
    struct live_config config; /* its `prometheus` becomes NULL after a failure */
    struct record_observer observer;
    FILE *events; /* NULL if not requested, not begun, or stopped after a failure */
    char events_path[4096];
    off_t size;                      /* of the event file at the last write */
    uint64_t events_ns, textfile_ns; /* times of the last writes */
    char name[256], arch[64], precision[32], mode[16], device[256];
    int64_t step; /* number of the next step */
    struct prometheus_run run;
};

static void warn(const struct live *l)
{
    fprintf(l->config.warnings,
            "ampscale: warning: %s; the run's own record is not affected: after the run, make the "
            "file from the record with 'ampscale export'\n",
            status_message());
}

static void tensorboard_give_up(struct live *l)
{
    warn(l);
    if (l->events)
        fclose(l->events);
    l->events = NULL;
}

static enum status tensorboard_open(struct live *l, const json_t *config, int64_t step)
{
    char dir[4096], name[TENSORBOARD_NAME_MAX], host[256] = "", pid[32];
    double time = clock_wall_s();
    int file;
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "%07ld", (long)getpid());
    tensorboard_name(name, time, host, pid);
    TRY(path_format(dir, sizeof dir, "%s/%s", l->config.tensorboard, l->name));
    TRY(dir_make(dir));
    TRY(path_format(l->events_path, sizeof l->events_path, "%s/%s", dir, name));
    if (step == 0)
        tensorboard_warn(dir, name, l->config.warnings);
    TRY(log_open(l->events_path, O_WRONLY, &file));
    l->events = fdopen(file, "ab");
    if (!l->events)
        return status_fail(STATUS_OOM, "no memory to write '%s'", l->events_path);
    tensorboard_begin(l->events, time, step);
    return tensorboard_hparams(l->events, time, config);
}

/* Passes the buffered events to the operating system. Unless `due` is true, does so at most once in
 * TENSORBOARD_NS. */
static void tensorboard_flush(struct live *l, bool due)
{
    struct stat s;
    uint64_t at = clock_ns();
    if (!l->events)
        return;
    bool whole = fstat(fileno(l->events), &s) != 0 || (s.st_nlink > 0 && s.st_size >= l->size);
    l->size = whole ? s.st_size : l->size;
    if (whole && !due && at - l->events_ns < TENSORBOARD_NS)
        return;
    l->events_ns = at;
    errno = 0;
    if (whole && fflush(l->events) == 0 && !ferror(l->events))
        return;
    enum status st = status_fail(STATUS_IO, "cannot write '%s': %s", l->events_path,
                                 whole ? strerror(errno ? errno : EIO)
                                       : "another program removed or shortened it");
    (void)st; /* tensorboard_give_up prints the message */
    tensorboard_give_up(l);
}

static enum status textfile_write(const struct live *l)
{
    struct atomic_file f;
    char target[4096];
    bool direct; /* writing to a pipe could block the training */
    TRY(output_find(l->config.prometheus, target, &direct));
    if (direct)
        return status_fail(STATUS_USAGE, "--prometheus '%s': not a regular file",
                           l->config.prometheus);
    TRY(atomic_file_open(&f, target));
    prometheus_write(f.stream, &l->run, 1);
    return atomic_file_publish(&f);
}

static void textfile_update(struct live *l, bool due)
{
    uint64_t at = clock_ns();
    if (!l->config.prometheus || (!due && at - l->textfile_ns < PROMETHEUS_NS))
        return;
    l->textfile_ns = at;
    if (textfile_write(l) == STATUS_OK)
        return;
    warn(l);
    l->config.prometheus = NULL;
}

static void live_begin(void *state, const char *dir, const struct run_info *info, int64_t step)
{
    struct live *l = state;
    /* Reads the name and the settings of the run, as run_load would. */
    char *real = realpath(dir, NULL);
    const char *path = real ? real : dir;
    const char *slash = strrchr(path, '/');
    const char *named = l->config.run_name;
    text_clean(l->name, sizeof l->name, named ? named : slash && slash[1] ? slash + 1 : path);
    free(real);
    text_clean(l->device, sizeof l->device, info->device);
    text_clean(l->arch, sizeof l->arch, json_text_at(info->config, "arch"));
    text_clean(l->precision, sizeof l->precision, json_text_at(info->config, "precision"));
    text_clean(l->mode, sizeof l->mode, json_text_at(info->config, "mode"));
    l->run = (struct prometheus_run){.name = named ? named : dir,
                                     .arch = l->arch,
                                     .precision = l->precision,
                                     .mode = l->mode,
                                     .device = l->device,
                                     .time = clock_wall_s()};
    l->step = step;
    if (l->config.tensorboard && tensorboard_open(l, info->config, step) != STATUS_OK)
        tensorboard_give_up(l);
    tensorboard_flush(l, true);
    textfile_update(l, true);
}

static void live_step(void *state, const struct step_record *step)
{
    struct live *l = state;
    double time = clock_wall_s();
    l->step = step->step + 1;
    prometheus_step(&l->run, time, step);
    if (l->events)
        tensorboard_step(l->events, time, step);
    tensorboard_flush(l, false);
    textfile_update(l, false);
}

static void live_epoch(void *state, const struct epoch_record *epoch)
{
    struct live *l = state;
    double time = clock_wall_s();
    prometheus_epoch(&l->run, time, epoch);
    if (l->events)
        tensorboard_epoch(l->events, time, epoch);
    tensorboard_flush(l, true);
    textfile_update(l, true);
}

static void live_telemetry(void *state, const struct telemetry_record *row, int n)
{
    struct live *l = state;
    double time = clock_wall_s();
    for (int i = 0; i < n; i++) {
        prometheus_telemetry(&l->run, time, &row[i]);
        if (l->events)
            tensorboard_telemetry(l->events, time, l->step, &row[i]);
    }
}

static void live_close(void *state, bool finished)
{
    struct live *l = state;
    l->run.finished = finished;
    if (l->events && tensorboard_end(l->events, clock_wall_s(), finished) != STATUS_OK)
        tensorboard_give_up(l);
    tensorboard_flush(l, true);
    textfile_update(l, true);
}

enum status live_create(const struct live_config *c, struct live **out)
{
    struct live *l;
    TRY(array_new(&l, 1));
    l->config = *c;
    l->observer = (struct record_observer){.state = l,
                                           .begin = live_begin,
                                           .step = live_step,
                                           .epoch = live_epoch,
                                           .telemetry = live_telemetry,
                                           .close = live_close};
    *out = l;
    return STATUS_OK;
}

const struct record_observer *live_observer(const struct live *l)
{
    return &l->observer;
}

void live_free(struct live *l)
{
    if (!l)
        return;
    if (l->events)
        fclose(l->events);
    free(l);
}
