/* Profiling a step: the process, its list of operations, and its kernels. */
#include "bench/profile.h"

#include "base/file.h"
#include "bench/micro.h"
#include "bench/train_child.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, STEP_MAX = 64 << 20 };

static enum status build_command(const struct profile_config *c, struct words *w)
{
    const struct bench_net_config *n = &c->net;
    TRY(words_add(w, "%s", c->program));
    TRY(words_add(w, "bench"));
    TRY(words_add(w, "step"));
    TRY(words_add(w, "--profile-one-step"));
    TRY(words_add(w, "--devices=%s", n->devices));
    TRY(words_add(w, "--net=%s", n->net));
    TRY(words_add(w, "--batch-size=%d", n->batch));
    TRY(words_add(w, "--image-size=%d", n->image_size));
    TRY(words_add(w, "--precision=%s", n->precision ? n->precision : "fp32"));
    TRY(words_add(w, "--fuse=%s", fuse_str(n->fuse)));
    TRY(words_add(w, "--rounds=%d", n->rounds));
    if (n->threads)
        TRY(words_add(w, "--threads=%d", n->threads));
    if (n->peak)
        TRY(words_add(w, "--peak=%s", n->peak));
    return n->emulate ? words_add(w, "--emulate") : STATUS_OK;
}

/* The object that begins a line: ncu may say something before it. */
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
    char path[PATH_SIZE];
    json_t *record;
    if (p->config->dir) {
        TRY(path_format(path, sizeof path, "%s/profile.json", p->config->dir));
        TRY(profile_json(p, &record));
        TRY(bench_record_write(record, path));
    }
    if (!p->config->net.json) {
        profile_print(p, p->config->net.out);
        return STATUS_OK;
    }
    TRY(profile_json(p, &record));
    micro_print(record, p->config->net.out);
    return STATUS_OK;
}

static enum status profile_in(struct profile *p, const char *dir, const char *ncu)
{
    const struct profile_config *c = p->config;
    struct time_budget budget = time_budget_begin(c->budget_s);
    struct process_signals signals;
    struct words command = {0};
    enum status st;
    TRY(process_signals_open(&signals));
    struct ncu_config run = {.ncu = ncu, .command = &command, .dir = dir, .signals = &signals};
    CHECK(build_command(c, &command));
    CHECK(ncu_version(&run, p->tool, sizeof p->tool));
    if (c->budget_s > 0)
        run.limit_s = (int64_t)fmax(1, time_budget_left(&budget));
    CHECK(ncu_run(&run, &p->kernel, &p->n_kernels));
    CHECK(read_step(dir, &p->step));
    CHECK(profile_assign(p));
    CHECK(print_profile(p));
done:
    words_free(&command);
    process_signals_close(&signals);
    return st;
}

enum status bench_profile(const struct profile_config *c)
{
    char ncu[PATH_SIZE], scratch[PATH_SIZE] = "";
    const char *where = getenv("TMPDIR");
    struct profile p = {.config = c};
    int held = -1;
    enum status st;
    if (strncmp(c->net.devices, "cuda", 4) != 0)
        return status_fail(STATUS_DATA,
                           "cannot profile '%s': profiles are of GPUs; give --devices cuda:0",
                           c->net.devices);
    CHECK(ncu_find(ncu, sizeof ncu));
    if (c->dir)
        CHECK(dir_make(c->dir));
    else {
        CHECK(path_format(scratch, sizeof scratch, "%s/ampscale-profile-XXXXXX",
                          where ? where : "/var/tmp"));
        CHECK(dir_make_temporary(scratch, &held));
    }
    CHECK(profile_in(&p, c->dir ? c->dir : scratch, ncu));
done:
    if (held >= 0) {
        if (dir_remove(scratch) != STATUS_OK)
            fprintf(stderr, "ampscale: %s\n", status_message());
        close(held);
    }
    json_decref(p.step);
    free(p.kernel);
    free(p.op);
    free(p.row);
    return st;
}
