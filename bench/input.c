/* Measuring input: the rows, stage by stage and by the number of threads. */
#include "bench/input.h"

#include "base/host.h"
#include "input/synth.h"

#include <inttypes.h>
#include <stdlib.h>

/* Files count as dropped from the page cache when it holds no more of them than this. */
static const double COLD_SHARE = 0.02;

enum { ROWS_PER_COUNT = 6 }; /* the stages, and those that read files twice */

struct input_config input_config_default(void)
{
    return (struct input_config){.images = INPUT_IMAGES_DEFAULT,
                                 .size = 375,
                                 .image_size = 224,
                                 .batch = 32,
                                 .timing = {.warmup = 2, .most = 50, .within = 0.02, .seconds = 2},
                                 .out = stdout};
}

double input_rate(const struct input_row *row)
{
    return row->time.median > 0 ? (double)row->images / row->time.median : 0;
}

/* Can the page cache be emptied of the files? Leaves it without them where it can. */
static enum status find_cold(struct input_report *r)
{
    TRY(input_set_drop(r->set));
    TRY(input_set_cached(r->set, &r->cached));
    r->cold = r->cached <= COLD_SHARE;
    return STATUS_OK;
}

static enum status measure_rows(const struct input_config *c, const struct input_set *set,
                                struct input_report *r, struct input_row *row)
{
    TRY(find_cold(r));
    for (int k = 0; k < c->n_threads; k++)
        for (int stage = 0; stage < INPUT_STAGES; stage++)
            for (int cold = 1; cold >= 0; cold--) {
                bool files = stage == INPUT_READ || stage == INPUT_LOADER;
                if (cold && (!files || !r->cold))
                    continue;
                TRY(input_measure(c, set, (enum input_stage)stage, cold == 1, c->threads[k],
                                  &row[r->rows]));
                r->rows++;
            }
    return STATUS_OK;
}

static enum status judge(const struct input_report *r)
{
    int64_t wrong = 0;
    for (int i = 0; i < r->rows; i++)
        wrong += r->row[i].wrong;
    if (wrong > 0)
        return status_fail(STATUS_MISMATCH, "%" PRId64 " images came out otherwise than they are",
                           wrong);
    return STATUS_OK;
}

static enum status run(const struct input_config *c, struct input_row *row)
{
    struct input_set set = {.dir = -1};
    struct input_report r = {.config = c, .set = &set, .cores = host_cores(), .row = row};
    enum status st, closed;
    CHECK(input_set_open(c, &set));
    CHECK(measure_rows(c, &set, &r, row));
    CHECK(input_report_print(&r));
    CHECK(judge(&r));
done:
    closed = input_set_close(&set);
    return st != STATUS_OK ? st : closed;
}

enum status bench_input(const struct input_config *c)
{
    struct input_row row[ROWS_PER_COUNT * INPUT_THREADS_MAX];
    struct input_config counted = *c;
    if (counted.n_threads == 0)
        counted.threads[counted.n_threads++] = host_cores();
    return run(&counted, row);
}
