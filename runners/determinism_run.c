/* The suite's own cases of repeated steps, each with its verdict. */
#include "runners/determinism.h"

#include "kernels/backend.h"

#include <inttypes.h>
#include <jansson.h>

enum { STEPS = 2, CLASSES = 10 };

struct shape {
    const char *arch;
    int image_size, batch;
};

/* The first alone is for `quick`. */
static const struct shape shapes[] = {{"resnet8", 32, 8}, {"resnet18", 64, 8}, {"resnet50", 64, 4}};
static const char *const precisions[] = {"fp32", "tf32", "amp", "bf16"};

/* What ran and how it went. */
struct tally {
    int ran, failed;
};

static void print_case(const struct determinism_config *config, const struct determinism_case *c,
                       const struct determinism_result *r, bool holds)
{
    fprintf(config->out, "%s %-8s %3d px, batch %d, %s: ", holds ? "PASS" : "FAIL", c->arch,
            c->image_size, c->batch, c->precision);
    if (holds)
        fprintf(config->out, "%d steps, %d times each, bits %016" PRIx64 "\n", c->steps, c->repeats,
                r->bits);
    else
        fprintf(config->out, "%s\n", status_message());
    fflush(config->out);
}

static void report_case(json_t *report, const struct determinism_case *c,
                        const struct determinism_result *r, bool holds)
{
    char bits[32] = "";
    if (holds)
        snprintf(bits, sizeof bits, "%016" PRIx64, r->bits);
    json_array_append_new(report, json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:s, s:s}", "arch",
                                            c->arch, "image_size", c->image_size, "batch", c->batch,
                                            "precision", c->precision, "steps", c->steps, "repeats",
                                            c->repeats, "ok", holds, "bits", bits, "difference",
                                            holds ? "" : status_message()));
}

static enum status run_case(const struct determinism_config *config, struct device *dev,
                            const struct determinism_case *c, json_t *report, struct tally *t)
{
    struct determinism_result r;
    enum status st = determinism_check(dev, c, &r);
    if (st != STATUS_OK && st != STATUS_MISMATCH)
        return status_context(st, "%s in %s", c->arch, c->precision);
    t->ran++;
    t->failed += st != STATUS_OK;
    if (config->json)
        report_case(report, c, &r, st == STATUS_OK);
    else
        print_case(config, c, &r, st == STATUS_OK);
    return STATUS_OK;
}

static enum status run_all(const struct determinism_config *config, struct device *dev,
                           json_t *report, struct tally *t)
{
    size_t n = config->quick ? 1 : sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
            const struct determinism_case c = {.arch = shapes[i].arch,
                                               .precision = precisions[p],
                                               .classes = CLASSES,
                                               .image_size = shapes[i].image_size,
                                               .batch = shapes[i].batch,
                                               .steps = STEPS,
                                               .repeats = config->repeats};
            TRY(run_case(config, dev, &c, report, t));
        }
    return STATUS_OK;
}

enum status determinism_run(const struct determinism_config *config)
{
    enum status st;
    struct device *dev = NULL;
    struct tally t = {0};
    json_t *report = json_array();
    char about[256];
    CHECK(device_open(config->devices, config->threads, &dev));
    dev->backend->describe(dev, about, sizeof about);
    if (!config->json)
        fprintf(config->out, "device: %s\n", about);
    CHECK(run_all(config, dev, report, &t));
    if (config->json) {
        json_t *all = json_pack("{s:i, s:s, s:b, s:O}", "schema", 1, "device", about, "ok",
                                t.failed == 0, "cases", report);
        json_dumpf(all, config->out, JSON_INDENT(1));
        fputc('\n', config->out);
        json_decref(all);
    } else {
        fprintf(config->out, "%d of %d cases give the same bits each time\n", t.ran - t.failed,
                t.ran);
    }
    if (t.failed)
        st = status_fail(STATUS_MISMATCH,
                         "%d of %d cases do not give the same bits each time; this device's "
                         "numbers cannot be trusted",
                         t.failed, t.ran);
done:
    json_decref(report);
    device_close(dev);
    return st;
}
