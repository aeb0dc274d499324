/* Runs ncu, and explains its failures. */
#include "bench/profile_ncu.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/text_new.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT_MAX = 256 << 20, PATH_SIZE = 4096, VERSION_SECONDS = 60, GRACE_SECONDS = 10 };

/* The requested metrics. If ncu lacks `name`, `otherwise` is requested instead. If `otherwise` is
 * NULL, nothing replaces `name`. */
static const struct {
    const char *name, *otherwise;
} metrics[] = {
    {"gpu__time_duration.sum", NULL},
    {"dram__bytes.sum", "dram__bytes_read.sum,dram__bytes_write.sum"},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
     "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed"},
    {"launch__registers_per_thread", NULL},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

/* --- finding it --- */

enum status ncu_find(char *path, size_t size)
{
    static const char *const places[] = {"/usr/local/cuda/bin/ncu",
                                         "/opt/nvidia/nsight-compute/*/ncu"};
    if (path_of_program("ncu", path, size))
        return STATUS_OK;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        glob_t found;
        int length = 0;
        if (glob(places[i], 0, NULL, &found) == 0) /* glob sorts, so the newest is the last */
            length = snprintf(path, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
        globfree(&found);
        if (length > 0 && length < (int)size && access(path, X_OK) == 0)
            return STATUS_OK;
    }
    return status_fail(STATUS_DATA, "cannot profile: NVIDIA's profiler 'ncu' is not on PATH, in "
                                    "/usr/local/cuda/bin or in /opt/nvidia/nsight-compute; "
                                    "install Nsight Compute");
}

/* --- running it --- */

static enum status ncu_process(const struct ncu_config *c, const struct words *words,
                               const char *out, int64_t limit_s, struct process_end *end)
{
    char log[PATH_SIZE], file[PATH_SIZE];
    TRY(path_format(log, sizeof log, "%s/ncu.log", c->dir));
    TRY(path_format(file, sizeof file, "%s/%s", c->dir, out));
    const struct process_config config = {.argv = words->v,
                                          .log = log,
                                          .out = file,
                                          .signals = c->signals,
                                          .limit_s = limit_s,
                                          .grace_s = GRACE_SECONDS};
    TRY(process_run(&config, end));
    if (end->received)
        return status_fail(STATUS_INTERRUPTED, "interrupted by %s", stop_signal_str(end->received));
    return STATUS_OK;
}

static enum status read_output(const struct ncu_config *c, const char *name, char **text)
{
    char path[PATH_SIZE];
    size_t size;
    TRY(path_format(path, sizeof path, "%s/%s", c->dir, name));
    return file_read(path, OUTPUT_MAX, text, &size);
}

enum status ncu_version(const struct ncu_config *c, char *out, size_t size)
{
    struct words words = {0};
    struct process_end end;
    char *text = NULL, version[32] = "";
    enum status st;
    snprintf(out, size, "ncu");
    CHECK(words_add_all(&words, c->ncu, "--version", NULL));
    CHECK(ncu_process(c, &words, "version.txt", VERSION_SECONDS, &end));
    CHECK(read_output(c, "version.txt", &text));
    const char *found = strstr(text, "Version ");
    if (found && sscanf(found, "Version %31[0-9.]", version) == 1)
        snprintf(out, size, "ncu %s", version);
done:
    words_free(&words);
    free(text);
    return st;
}

/* Makes the command line of ncu. LC_ALL=C sets the separators in numbers to those that the CSV
 * reader expects. */
static enum status ncu_command(const struct ncu_config *c, const bool lacking[METRICS],
                               struct words *words)
{
    char list[1024] = "";
    for (int i = 0; i < METRICS; i++) {
        const char *name = lacking[i] ? metrics[i].otherwise : metrics[i].name;
        if (name)
            text_join(list, sizeof list, ",", "%s", name);
    }
    TRY(words_add_all(words, "env", "LC_ALL=C", c->ncu, "--profile-from-start", "off",
                      "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base",
                      "--metrics", list, NULL));
    TRY(words_add_flag(words, "--log-file", "%s/ncu.csv", c->dir));
    return words_add_list(words, c->command->n, c->command->v);
}

/* Marks the metrics that ncu reports as missing. Returns false if all of them were already marked
 * before the call. */
static bool find_lacking(const char *text, bool lacking[METRICS])
{
    static const char complaint[] = "Failed to find metric";
    bool any = false;
    for (const char *at = strstr(text, complaint); at; at = strstr(at + 1, complaint)) {
        size_t line = strcspn(at, "\n");
        for (int i = 0; i < METRICS; i++) {
            size_t n = strcspn(metrics[i].name, ".");
            const char *named = memmem(at, line, metrics[i].name, n);
            if (named && strchr(".\\ (\r\n", named[n])) {
                any |= !lacking[i];
                lacking[i] = true;
            }
        }
    }
    return any;
}

/* Returns STATUS_DATA. The message has the reason: the time limit, an error of ncu, an error of the
 * profiled process, or a profile without kernels. */
static enum status ncu_explain(const struct ncu_config *c, const char *text,
                               const struct process_end *end)
{
    const char *error = strstr(text, "==ERROR== ");
    char line[256], cut[256];
    if (end->late)
        return status_fail(
            STATUS_DATA,
            "cannot profile: not done within %lld s; give a larger --budget or a smaller -b",
            (long long)c->limit_s);
    if (strstr(text, "ERR_NVGPUCTRPERM"))
        return status_fail(STATUS_DATA,
                           "cannot profile: the driver lets only administrators read the GPU's "
                           "counters (ERR_NVGPUCTRPERM); run as root, in a container with "
                           "CAP_SYS_ADMIN, or load the driver with "
                           "NVreg_RestrictProfilingToAdminUsers=0");
    if (error) {
        snprintf(cut, sizeof cut, "%.*s", (int)strcspn(error + 10, "\r\n"), error + 10);
        text_clean(line, sizeof line, cut);
        return status_fail(STATUS_DATA, "cannot profile: ncu: %s", line);
    }
    if (end->code != 0)
        return status_fail(STATUS_DATA,
                           "cannot profile: the process that runs the step exited with code %d: %s",
                           end->code, *end->message ? end->message : "no message");
    return status_fail(STATUS_DATA, "cannot profile: ncu reported no kernel of the step");
}

static enum status run_once(const struct ncu_config *c, bool lacking[METRICS], bool *again,
                            struct ncu_kernel **kernel, int *n)
{
    struct words words = {0};
    struct process_end end = {0};
    char *csv = NULL, *log = NULL, *both = NULL, path[PATH_SIZE];
    enum status st;
    *again = false;
    CHECK(path_format(path, sizeof path, "%s/ncu.csv", c->dir));
    CHECK(file_replace(path, "", 0)); /* removes the output of an earlier run */
    CHECK(ncu_command(c, lacking, &words));
    CHECK(ncu_process(c, &words, "step.json", c->limit_s, &end));
    CHECK(read_output(c, "ncu.csv", &csv));
    CHECK(read_output(c, "ncu.log", &log));
    CHECK(text_new(&both, "%s\n%s", csv, log));
    if (end.code == 0 && ncu_parse(csv, kernel, n) == STATUS_OK)
        goto done;
    *again = !end.late && find_lacking(both, lacking);
    st = ncu_explain(c, both, &end);
done:
    words_free(&words);
    free(csv);
    free(log);
    free(both);
    return st;
}

enum status ncu_run(const struct ncu_config *c, struct ncu_kernel **kernel, int *n)
{
    struct ncu_config rest = *c;
    bool lacking[METRICS] = {false}, again;
    uint64_t begun = clock_ns();
    enum status st = run_once(c, lacking, &again, kernel, n);
    if (st == STATUS_OK || !again)
        return st;
    if (c->limit_s > 0) {
        rest.limit_s -= (int64_t)((clock_ns() - begun) / 1000000000);
        if (rest.limit_s < 1)
            rest.limit_s = 1;
    }
    return run_once(&rest, lacking, &again, kernel, n);
}
