/* Follows a run that is being written. */
#include "results/follow.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lines.h"
#include "results/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* If a file is longer than this when it is first read, only this many bytes at its end are parsed.
 * They contain far more than FOLLOW_KEEP steps. */
enum { TAIL_BYTES = 4 << 20 };

/* Identity, time and size of the file at a path. */
struct sight {
    dev_t device;
    ino_t inode;
    struct timespec written;
    int64_t size; /* -1: no file at the path */
};

struct follow {
    char dir[4096];
    struct run *run; /* NULL: the run must be read from the beginning */
    struct rows rows[ROWS_FILES];
    struct lines lines[ROWS_FILES];
    bool open[ROWS_FILES];
    struct sight info, summary, outcome, file[ROWS_FILES];
    uint64_t heard_ns;   /* time at which a new record was last read */
    double quiet_before; /* seconds between the writing of the last record and heard_ns */
};

static enum status look(const struct follow *f, const char *file, struct sight *out)
{
    char path[4096];
    struct stat s;
    bool exists;
    TRY(path_format(path, sizeof path, "%s/%s", f->dir, file));
    TRY(path_stat(path, &s, &exists));
    *out = (struct sight){.size = -1};
    if (exists)
        *out = (struct sight){s.st_dev, s.st_ino, s.st_mtim, s.st_size};
    return STATUS_OK;
}

static bool same_file(const struct sight *a, const struct sight *b)
{
    return a->device == b->device && a->inode == b->inode;
}

static bool same(const struct sight *a, const struct sight *b)
{
    return same_file(a, b) && a->size == b->size && a->written.tv_sec == b->written.tv_sec &&
           a->written.tv_nsec == b->written.tv_nsec;
}

/* Frees the run. */
static void drop(struct follow *f)
{
    for (int i = 0; i < ROWS_FILES; i++)
        lines_close(&f->lines[i]);
    memset(f->open, 0, sizeof f->open);
    if (f->run)
        rows_show(f->rows, f->run); /* `rows` and `run` share memory, which run_free frees */
    run_free(f->run);
    f->run = NULL;
}

/* Begins to read the run from its beginning. */
static enum status begin(struct follow *f)
{
    TRY(look(f, "run.json", &f->info));
    TRY(look(f, "summary.json", &f->summary));
    TRY(look(f, "outcome.json", &f->outcome));
    TRY(run_begin(f->dir, &f->run));
    rows_begin(f->rows);
    for (int i = 0; i < ROWS_FILES; i++)
        f->file[i] = (struct sight){.size = -1};
    return STATUS_OK;
}

/* Reads the rest of file i, which has `size` bytes. The rest begins after the last line that was
 * read. */
static enum status read_on(struct follow *f, int i, int64_t size)
{
    struct rows *rows = &f->rows[i];
    bool windowed = i == ROWS_STEPS || i == ROWS_TELEMETRY;
    for (;;) {
        char *line;
        size_t length;
        TRY(lines_next(&f->lines[i], &line, &length));
        if (!line)
            break;
        if (windowed && f->lines[i].whole < size - TAIL_BYTES &&
            !memmem(line, length, "\"event\"", strlen("\"event\"")))
            continue;
        enum status st = rows_line(rows, line, length, f->run);
        if (st != STATUS_OK)
            return status_context(st, "'%s' line %lld", f->lines[i].path,
                                  (long long)f->lines[i].number);
        if (windowed && rows->n >= 2 * FOLLOW_KEEP)
            rows_keep(rows, FOLLOW_KEEP);
    }
    if (windowed)
        rows_keep(rows, FOLLOW_KEEP);
    return STATUS_OK;
}

/* Reads the lines that were appended to file i. Sets *replaced if another file has replaced file
 * i. */
static enum status poll_file(struct follow *f, int i, bool *replaced)
{
    char path[4096];
    struct sight now;
    TRY(look(f, f->rows[i].file, &now));
    if (f->open[i] && (!same_file(&now, &f->file[i]) || now.size < f->lines[i].whole)) {
        *replaced = true;
        return STATUS_OK;
    }
    if (now.size < 0 || same(&now, &f->file[i]))
        return STATUS_OK;
    if (f->open[i]) {
        TRY(lines_refresh(&f->lines[i]));
    } else {
        f->open[i] = true; /* from now on, drop() closes it */
        TRY(path_format(path, sizeof path, "%s/%s", f->dir, f->rows[i].file));
        TRY(lines_open(&f->lines[i], path));
    }
    f->file[i] = now;
    return read_on(f, i, now.size);
}

static enum status poll_documents(struct follow *f, bool *replaced)
{
    struct sight info, summary, outcome;
    TRY(look(f, "run.json", &info));
    TRY(look(f, "summary.json", &summary));
    TRY(look(f, "outcome.json", &outcome));
    *replaced = !same(&info, &f->info);
    if (*replaced || (same(&summary, &f->summary) && same(&outcome, &f->outcome)))
        return STATUS_OK;
    f->summary = summary;
    f->outcome = outcome;
    return run_load_end(f->run);
}

/* Returns the seconds since the last record was written, computed from the time of day and the
 * modification times of the files. */
static double age(const struct follow *f)
{
    double last = (double)f->info.written.tv_sec;
    for (int i = 0; i < ROWS_FILES; i++)
        if (f->file[i].size >= 0 && (double)f->file[i].written.tv_sec > last)
            last = (double)f->file[i].written.tv_sec;
    return fmax(0, floor(clock_wall_s()) - last);
}

/* Reads all new records. Sets *replaced if another run has replaced this one in the folder. */
static enum status look_around(struct follow *f, bool *replaced)
{
    bool first = !f->run, changed = first;
    if (first)
        TRY(begin(f));
    else
        TRY(poll_documents(f, replaced));
    for (int i = 0; i < ROWS_FILES && !*replaced; i++) {
        int64_t whole = f->lines[i].whole;
        TRY(poll_file(f, i, replaced));
        changed = changed || f->lines[i].whole != whole;
    }
    rows_show(f->rows, f->run);
    if (changed) {
        f->heard_ns = clock_ns();
        f->quiet_before = first ? age(f) : 0;
    }
    return STATUS_OK;
}

enum status follow_poll(struct follow *f)
{
    bool replaced = false;
    enum status st = look_around(f, &replaced);
    if (st == STATUS_OK && replaced) {
        drop(f);
        replaced = false;
        st = look_around(f, &replaced);
    }
    if (st != STATUS_OK)
        drop(f);
    return st;
}

enum status follow_open(const char *dir, struct follow **out)
{
    enum status st;
    struct follow *f;
    TRY(array_new(&f, 1));
    CHECK(path_format(f->dir, sizeof f->dir, "%s", dir));
    CHECK(follow_poll(f));
    *out = f;
    return STATUS_OK;
done:
    follow_close(f);
    return st;
}

const struct run *follow_run(const struct follow *f)
{
    return f->run;
}

double follow_quiet(const struct follow *f)
{
    return f->quiet_before + (double)(clock_ns() - f->heard_ns) * 1e-9;
}

void follow_close(struct follow *f)
{
    if (!f)
        return;
    drop(f);
    free(f);
}
