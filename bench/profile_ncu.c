/* Finds and runs ncu, explains its failures, and reads its CSV. */
#include "bench/profile_ncu.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/text_new.h"

#include <glob.h>
#include <math.h>
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
    return stop_check();
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

/* --- its CSV: a header, a row of units, then a row for each kernel. Between these lines there may
 * be messages of ncu ("==PROF== ...") and output of the program --- */

enum { COLUMNS_MAX = 64 };

struct ncu_columns {
    int n; /* number of columns of the file; 0 until the header is read */
    const char *name[COLUMNS_MAX];
    double unit[COLUMNS_MAX]; /* factor that converts a value to SI units, or a percentage to a
                               * fraction; NaN: unknown unit */
};

/* Parses a number with thousands separators. Returns NaN for anything else. */
static double number(const char *text)
{
    char digits[64], *end;
    size_t n = 0;
    for (; *text && n + 1 < sizeof digits; text++)
        if (*text != ',')
            digits[n++] = *text;
    digits[n] = '\0';
    double v = strtod(digits, &end);
    return n == 0 || *text || *end || !isfinite(v) || v < 0 ? NAN : v;
}

static double unit_of(const char *text)
{
    static const struct {
        const char *name;
        double value;
    } units[] = {
        {"ns", 1e-9},      {"nsecond", 1e-9}, {"us", 1e-6},    {"usecond", 1e-6}, {"ms", 1e-3},
        {"msecond", 1e-3}, {"s", 1},          {"second", 1},   {"byte", 1},       {"Kbyte", 1e3},
        {"Mbyte", 1e6},    {"Gbyte", 1e9},    {"Tbyte", 1e12}, {"%", 1e-2},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(text, units[i].name) == 0)
            return units[i].value;
    return NAN;
}

static void take_header(struct ncu_columns *t, int n, char *const field[])
{
    t->n = n;
    for (int i = 0; i < n; i++) {
        t->name[i] = field[i];
        t->unit[i] = NAN;
    }
}

/* Returns the field of the column `name` and sets *unit. Returns NULL if the file lacks the
 * column. */
static char *find(const struct ncu_columns *t, const char *name, char *const field[], double *unit)
{
    for (int i = 0; i < t->n; i++) {
        *unit = t->unit[i];
        if (strcmp(t->name[i], name) == 0)
            return field[i];
    }
    return NULL;
}

static double value(const struct ncu_columns *t, const char *name, char *const field[])
{
    double unit;
    const char *text = find(t, name, field, &unit);
    return text ? number(text) * unit : NAN;
}

/* Copies the name of a kernel without "void" and without parameters: "void bn_apply<__half,
 * (bool)1>(columns, cu_bn_apply)" becomes "bn_apply<__half, (bool)1>". */
static void take_name(char out[NCU_NAME_SIZE], char *name)
{
    size_t n = strlen(name);
    int depth = 0;
    if (n > 0 && name[n - 1] == ')')
        for (size_t i = n; i-- > 0;) {
            depth += (name[i] == ')') - (name[i] == '(');
            if (depth == 0 && i > 0) {
                name[i] = '\0';
                break;
            }
        }
    if (strncmp(name, "void ", 5) == 0)
        name += 5;
    text_clean(out, NCU_NAME_SIZE, *name ? name : "?");
}

static struct ncu_kernel kernel_of(const struct ncu_columns *t, char *name, char *const field[])
{
    static const char tensor[] = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
                      other[] = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
                      dram[] = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
    struct ncu_kernel k = {.seconds = value(t, "gpu__time_duration.sum", field),
                           .bytes = value(t, "dram__bytes.sum", field),
                           .tensor = value(t, tensor, field),
                           .dram = value(t, dram, field),
                           .registers = -1};
    double unit;
    const char *registers = find(t, "launch__registers_per_thread", field, &unit);
    if (isnan(k.bytes))
        k.bytes =
            value(t, "dram__bytes_read.sum", field) + value(t, "dram__bytes_write.sum", field);
    if (isnan(k.tensor))
        k.tensor = value(t, other, field);
    if (registers && number(registers) <= 255)
        k.registers = (int)number(registers);
    take_name(k.name, name);
    return k;
}

/* Reads a line, which is the header, the units or the row of a kernel. Ignores lines that are not
 * CSV. */
static enum status take_line(struct ncu_columns *t, char *line, struct ncu_kernel **list, int *n)
{
    char *field[COLUMNS_MAX];
    double unit;
    if (line[0] != '"')
        return STATUS_OK;
    bool header = strncmp(line, "\"ID\",", 5) == 0;
    int fields = csv_split(line, field, COLUMNS_MAX);
    if (header && fields > 0) {
        take_header(t, fields, field);
        return STATUS_OK;
    }
    char *name = fields == t->n ? find(t, "Kernel Name", field, &unit) : NULL;
    if (!name)
        return STATUS_OK;
    for (int i = 0; !*field[0] && i < fields; i++)
        t->unit[i] = unit_of(field[i]);
    if (!*field[0] || field[0][strspn(field[0], "0123456789")] != '\0')
        return STATUS_OK; /* not a kernel's row, because the first field is not a number */
    if (*n == NCU_KERNELS_MAX)
        return status_fail(STATUS_DATA, "ncu lists more than %d kernels", NCU_KERNELS_MAX);
    TRY(array_reserve(list, *n));
    (*list)[(*n)++] = kernel_of(t, name, field);
    return STATUS_OK;
}

enum status ncu_parse(char *text, struct ncu_kernel **kernel, int *n)
{
    struct ncu_columns t = {0};
    struct ncu_kernel *list = NULL;
    enum status st = STATUS_OK;
    char *line;
    *kernel = NULL;
    *n = 0;
    while ((line = strsep(&text, "\n"))) {
        line[strcspn(line, "\r")] = '\0';
        CHECK(take_line(&t, line, &list, n));
    }
    if (*n == 0)
        st = status_fail(STATUS_DATA, "ncu lists no kernel");
done:
    if (st == STATUS_OK)
        *kernel = list;
    else
        free(list);
    return st;
}
