/* Profiles a step: runs a process under ncu. The process prints the list of operations, and ncu
 * prints the list of kernels. This file reads both lists. */
#include "bench/profile.h"

#include "base/file.h"
#include "base/json.h"
#include "bench/train_child.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, STEP_MAX = 64 << 20 };

static enum status step_command(const struct bench_options *n, struct words *w)
{
    char program[PATH_MAX];
    TRY(process_own_file(program, sizeof program));
    TRY(words_add_all(w, program, "bench", "step", "--profile-one-step", NULL));
    TRY(words_add(w, "--devices=%s", n->devices));
    TRY(words_add(w, "--net=%s", n->net));
    TRY(words_add(w, "--batch-size=%d", n->batch));
    TRY(words_add(w, "--image-size=%d", n->image_size));
    TRY(words_add(w, "--precision=%s", bench_precision(n)));
    TRY(words_add(w, "--fuse=%s", fuse_str(n->fuse)));
    TRY(words_add(w, "--rounds=%d", n->rounds));
    if (n->threads)
        TRY(words_add(w, "--threads=%d", n->threads));
    if (n->peak)
        TRY(words_add(w, "--peak=%s", n->peak));
    return n->emulate ? words_add(w, "--emulate") : STATUS_OK;
}

/* Reads the JSON object that the profiled process printed. Skips the lines before it, which ncu may
 * have printed. */
static enum status read_step(const char *dir, json_t **step)
{
    char path[PATH_SIZE], *text = NULL;
    size_t size;
    json_error_t error;
    TRY(path_format(path, sizeof path, "%s/step.json", dir));
    TRY(file_read(path, STEP_MAX, &text, &size));
    const char *begin = strstr(text, "{\n");
    *step = json_loads(begin ? begin : "", JSON_DISABLE_EOF_CHECK, &error);
    free(text);
    if (!*step)
        return status_fail(STATUS_DATA, "cannot read the step's operations: '%s': %s", path,
                           error.text);
    return STATUS_OK;
}

static enum status print_profile(const struct profile *p)
{
    const struct bench_options *o = p->options;
    char path[PATH_SIZE];
    json_t *record;
    enum status st = STATUS_OK;
    TRY(profile_json(p, &record));
    if (o->format == BENCH_TEXT)
        profile_print(p);
    else
        CHECK(json_print(json_incref(record), o->out, JSON_RECORD));
    if (o->dir) {
        CHECK(path_format(path, sizeof path, "%s/profile.json", o->dir));
        CHECK(json_write(json_incref(record), path, JSON_RECORD));
    }
done:
    json_decref(record);
    return st;
}

static enum status profile_in(struct profile *p, const char *dir, const char *ncu)
{
    const struct bench_options *o = p->options;
    struct time_budget budget = time_budget_begin(o->budget_s);
    struct process_signals signals;
    struct words command = {0};
    enum status st;
    TRY(process_signals_open(&signals));
    struct ncu_config run = {.ncu = ncu, .command = &command, .dir = dir, .signals = &signals};
    CHECK(step_command(o, &command));
    CHECK(ncu_version(&run, p->tool, sizeof p->tool));
    if (o->budget_s > 0)
        run.limit_s = (int64_t)fmax(1, time_budget_left(&budget));
    struct quiet q = quiet_begin(&o->timing); /* not repeated: ncu takes minutes */
    CHECK(ncu_run(&run, &p->kernel, &p->n_kernels));
    CHECK(quiet_end(&q, &p->noise));
    CHECK(read_step(dir, &p->step));
    CHECK(profile_assign(p));
    CHECK(print_profile(p));
done:
    words_free(&command);
    process_signals_close(&signals);
    return st;
}

enum status bench_profile(const struct bench_options *o)
{
    char ncu[PATH_SIZE];
    struct temporary_dir scratch = {{0}};
    struct profile p = {.options = o};
    enum status st;
    if (strncmp(o->devices, "cuda", 4) != 0)
        return status_fail(STATUS_DATA,
                           "cannot profile '%s': only GPUs can be profiled; give --devices cuda:0",
                           o->devices);
    CHECK(ncu_find(ncu, sizeof ncu));
    CHECK(o->dir ? dir_make(o->dir) : temporary_dir_make(&scratch, "/var/tmp", "ampscale-profile"));
    CHECK(profile_in(&p, o->dir ? o->dir : scratch.path, ncu));
done:
    if (temporary_dir_remove(&scratch) != STATUS_OK)
        fprintf(stderr, "ampscale: %s\n", status_message());
    json_decref(p.step);
    free(p.kernel);
    free(p.op);
    free(p.row);
    return st;
}
