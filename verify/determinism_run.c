/* Runs the built-in cases of repeated steps, and prints their verdicts. */
#include "verify/determinism.h"

#include "base/json.h"

#include <inttypes.h>

enum { STEPS = 2, CLASSES = 10 };

struct shape {
    const char *arch;
    int image_size, batch;
};

/* The shapes of the cases; with config->quick, only the cases of the first shape run. */
static const struct shape shapes[] = {{"resnet8", 32, 8}, {"resnet18", 64, 8}, {"resnet50", 64, 4}};
static const char *const precisions[] = {"fp32", "tf32", "amp", "bf16"};

static void print_case(FILE *out, const struct determinism_case *c,
                       const struct determinism_result *r, bool holds)
{
    fprintf(out, "%s %-8s %3d px, batch %d, %s: ", holds ? "PASS" : "FAIL", c->arch, c->image_size,
            c->batch, c->precision);
    if (holds)
        fprintf(out, "%d steps, %d times each, bits %016" PRIx64 "\n", c->steps, c->repeats,
                r->bits);
    else
        fprintf(out, "%s\n", status_message());
}

static enum status report_case(json_t *report, const struct determinism_case *c,
                               const struct determinism_result *r, bool holds)
{
    char bits[32] = "";
    if (holds)
        snprintf(bits, sizeof bits, "%016" PRIx64, r->bits);
    return json_add(report,
                    json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:s, s:s}", "arch", c->arch,
                              "image_size", c->image_size, "batch", c->batch, "precision",
                              c->precision, "steps", c->steps, "repeats", c->repeats, "ok", holds,
                              "bits", bits, "difference", holds ? "" : status_message()));
}

static enum status repeat_case(struct suite *s, const struct determinism_case *c)
{
    struct determinism_result r;
    enum status st = determinism_check(s->dev, c, &r), reported = STATUS_OK;
    if (st != STATUS_OK && st != STATUS_MISMATCH)
        st = status_context(st, "%s in %s", c->arch, c->precision);
    if (s->config->json)
        reported = report_case(s->report, c, &r, st == STATUS_OK);
    else if (st != STATUS_OK || s->config->verbose)
        print_case(s->lines, c, &r, st == STATUS_OK);
    suite_end_case(s, st);
    return reported;
}

static enum status repeat_cases(struct suite *s, void *context)
{
    (void)context;
    size_t n = s->config->quick ? 1 : sizeof shapes / sizeof *shapes;
    bar_begin(s->config->bar, (int64_t)(n * sizeof precisions / sizeof *precisions));
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
            const struct determinism_case c = {.arch = shapes[i].arch,
                                               .precision = precisions[p],
                                               .classes = CLASSES,
                                               .image_size = shapes[i].image_size,
                                               .batch = shapes[i].batch,
                                               .steps = STEPS,
                                               .repeats = s->config->repeats};
            if (suite_begin_case(s))
                TRY(repeat_case(s, &c));
        }
    return STATUS_OK;
}

enum status determinism_run(const struct selftest_config *config)
{
    return suite_run(config, repeat_cases, NULL, "give the same bits each time");
}
