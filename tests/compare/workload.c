#include "tests/compare/workload.h"

#include "base/file.h"
#include "base/process.h"

/* Turns of milliseconds are possible only for runs of a single process, because only the started
 * process is stopped. With several ranks, `launch` is the started process, and stopping `launch`
 * would not stop the ranks. */
const struct workload workloads[] = {
    {.name = "nd",
     .about = "one device, synthetic tensors, FP32",
     .slice_ms = 50,
     .steps = 280,
     .ranks = 1,
     .precision = "fp32"},
    {.name = "ddp",
     .about = "DDP with 2 ranks, synthetic tensors, FP32",
     .pool = 40,
     .steps = 280,
     .ranks = 2,
     .precision = "fp32"},
    {.name = "jpeg",
     .about = "one device, JPEG files, FP32",
     .slice_ms = 50,
     .pool = 40,
     .steps = 280,
     .ranks = 1,
     .images = true,
     .precision = "fp32"},
    {.name = "amp",
     .about = "one device, synthetic tensors, O1",
     .slice_ms = 50,
     .pool = 40,
     .steps = 280,
     .ranks = 1,
     .precision = "O1"},
    {0},
};

enum { CLASSES = 10, IMAGES = 20 };

enum status workload_prepare(const struct workload *w, const char *program, const char *scratch)
{
    struct words argv = {0};
    struct process_signals signals;
    struct process_end end;
    enum status st;
    if (!w->images)
        return STATUS_OK;
    TRY(process_signals_open(&signals));
    CHECK(words_add_all(&argv, program, "data", "synth", NULL));
    CHECK(words_add_flag(&argv, "--out", "%s/images", scratch));
    CHECK(words_add_flag(&argv, "--classes", "%d", CLASSES));
    CHECK(words_add_flag(&argv, "--train", "%d", IMAGES));
    CHECK(words_add_all(&argv, "--val", "1", "--size", "48", NULL));
    struct process_config config = {.argv = argv.v, .out = "/dev/null", .signals = &signals};
    CHECK(process_run(&config, &end));
    if (end.code != 0)
        st = status_fail(STATUS_DATA, "data synth: exit code %d", end.code);
done:
    process_signals_close(&signals);
    words_free(&argv);
    return st;
}

static enum status add_data(const struct workload *w, const char *scratch, struct words *argv)
{
    if (w->images)
        return words_add(argv, "%s/images", scratch);
    return words_add_all(argv, "--dummy", "--dummy-train", "100000", "--dummy-val", "1",
                         "--classes", "10", NULL);
}

enum status workload_command(const struct workload *w, const char *program, const char *scratch,
                             const char *inject, const char *out, struct words *argv)
{
    TRY(words_add(argv, "%s", program));
    if (w->ranks > 1) {
        TRY(words_add(argv, "launch"));
        TRY(words_add_flag(argv, "--nproc", "%d", w->ranks));
        TRY(words_add(argv, "--"));
    }
    TRY(words_add(argv, "train"));
    TRY(add_data(w, scratch, argv));
    TRY(words_add_all(argv, "--training-only", "--no-checkpoint", "--arch", "resnet8",
                      "--image-size", "32", "--threads", "1", "--workers", "1", "--telemetry", "0",
                      "--print-freq", "1000000", "--epochs", "1000", NULL));
    TRY(words_add_flag(argv, "--batch-size", "%d", 2 * w->ranks));
    TRY(words_add_flag(argv, "--precision", "%s", w->precision));
    TRY(words_add_flag(argv, "--steps", "%lld", (long long)w->steps));
    TRY(words_add_flag(argv, "--out", "%s", out));
    return inject ? words_add_flag(argv, "--inject", "%s", inject) : STATUS_OK;
}
