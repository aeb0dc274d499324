/* Runs and reports the cases of a suite. */
#include "verify/suite.h"

#include "base/clock.h"
#include "base/json.h"
#include "kernels/backend.h"
#include "verify/worker.h"

#include <stdlib.h>

bool suite_begin_case(struct suite *s)
{
    s->begun_ns = clock_ns();
    bool fits = s->due_ns == 0 || s->begun_ns + s->slowest_ns < s->due_ns;
    s->left_out += s->broken || !fits;
    return !s->broken && fits;
}

void suite_end_case(struct suite *s, enum status st)
{
    uint64_t ns = clock_ns() - s->begun_ns;
    s->ran++;
    s->failed += st != STATUS_OK;
    s->slowest_ns = ns > s->slowest_ns ? ns : s->slowest_ns;
    bar_step(s->config->bar);
    if (st == STATUS_OK || st == STATUS_MISMATCH)
        return;
    first_failure_keep(&s->error, st);
    s->broken = worker_try(s->dev) != STATUS_OK;
}

static const char *why_left_out(const struct suite *s)
{
    return s->broken ? "the device does not work after an error" : "the time limit is reached";
}

/* Prints the results of a suite; `lines` is the text of its cases. */
static enum status suite_report(const struct suite *s, const char *lines, const char *verdict)
{
    const struct selftest_config *config = s->config;
    char about[256];
    json_t *all;
    s->dev->backend->describe(s->dev, about, sizeof about);
    if (config->json) {
        TRY(json_new(&all, "{s:i, s:s, s:b, s:i, s:O}", "schema", 1, "device", about, "ok",
                     s->failed == 0 && s->left_out == 0, "left_out", s->left_out, "cases",
                     s->report));
        return json_print(all, config->out, JSON_RECORD);
    }
    fprintf(config->out, "%d of %d cases %s on %s", s->ran - s->failed, s->ran, verdict, about);
    if (s->left_out)
        fprintf(config->out, "; cases left out: %d, because %s", s->left_out, why_left_out(s));
    fprintf(config->out, "\n%s", lines);
    fflush(config->out); /* so that this text comes before the verdict on stderr */
    return STATUS_OK;
}

static enum status suite_verdict(const struct suite *s, const char *verdict)
{
    TRY(first_failure_return(&s->error));
    if (s->failed)
        return status_fail(
            STATUS_MISMATCH,
            "selftest: %d of %d cases do not %s; the results of this device cannot be trusted",
            s->failed, s->ran, verdict);
    if (s->left_out)
        return status_fail(STATUS_DATA, "selftest: %d of %d cases are left out, because %s",
                           s->left_out, s->ran + s->left_out, why_left_out(s));
    return STATUS_OK;
}

enum status suite_run(const struct selftest_config *config, suite_cases *run, void *context,
                      const char *verdict)
{
    enum status st;
    struct suite s = {.config = config};
    char *lines = NULL;
    size_t size;
    if (config->limit_s)
        s.due_ns = clock_ns() + (uint64_t)config->limit_s * 1000000000u;
    CHECK(json_new(&s.report, "[]"));
    CHECK(device_open(config->devices, config->threads, &s.dev));
    s.lines = open_memstream(&lines, &size);
    if (!s.lines)
        CHECK(status_fail(STATUS_OOM, "no memory for the lines of the cases"));
    CHECK(run(&s, context));
    fflush(s.lines);
    CHECK(suite_report(&s, lines, verdict));
    st = suite_verdict(&s, verdict);
done:
    bar_erase(config->bar);
    if (s.lines)
        fclose(s.lines);
    free(lines);
    json_decref(s.report);
    device_close(s.dev);
    return st;
}
