/* Reading ncu's CSV: a header, a row of units, then a row for each kernel, with lines of ncu's own
 * ("==PROF== ...") and of the program between them. */
#include "bench/profile_ncu.h"

#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 64 };

enum column {
    NAME,
    TIME,
    BYTES,
    BYTES_READ,
    BYTES_WRITTEN,
    TENSOR,
    TENSOR_OTHER,
    DRAM,
    REGISTERS,
    COLUMNS
};

static const char *const column_name[COLUMNS] = {
    [NAME] = "Kernel Name",
    [TIME] = "gpu__time_duration.sum",
    [BYTES] = "dram__bytes.sum",
    [BYTES_READ] = "dram__bytes_read.sum",
    [BYTES_WRITTEN] = "dram__bytes_write.sum",
    [TENSOR] = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    [TENSOR_OTHER] = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
    [DRAM] = "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    [REGISTERS] = "launch__registers_per_thread",
};

struct table {
    int n;                /* columns of the file; 0 before the header */
    int at[COLUMNS];      /* -1: it is not there */
    double unit[COLUMNS]; /* of SI units and shares; NaN: unknown */
};

/* Cuts a line into its fields, in place; -1 where it is no row of CSV. */
static int split(char *line, char *field[COLUMNS_MAX])
{
    char *in = line, *out = line;
    int n = 0;
    for (;;) {
        bool quoted = *in == '"';
        if (n == COLUMNS_MAX)
            return -1;
        in += quoted;
        field[n++] = out;
        while (*in && (quoted || *in != ',')) {
            if (quoted && *in == '"' && *++in != '"')
                break;
            *out++ = *in++;
        }
        if (*in && *in != ',')
            return -1;
        bool more = *in == ',';
        in += more;
        *out++ = '\0';
        if (!more)
            return n;
    }
}

/* A number with separators of thousands; NaN for anything else. */
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

static void take_header(struct table *t, int n, char *const field[])
{
    t->n = n;
    for (int c = 0; c < COLUMNS; c++) {
        t->at[c] = -1;
        t->unit[c] = NAN;
        for (int i = 0; i < n && t->at[c] < 0; i++)
            if (strcmp(field[i], column_name[c]) == 0)
                t->at[c] = i;
    }
}

static void take_units(struct table *t, char *const field[])
{
    for (int c = 0; c < COLUMNS; c++)
        if (t->at[c] >= 0)
            t->unit[c] = unit_of(field[t->at[c]]);
}

static double value(const struct table *t, enum column c, char *const field[])
{
    return t->at[c] < 0 ? NAN : number(field[t->at[c]]) * t->unit[c];
}

/* "void bn_apply<__half, (bool)1>(columns, cu_bn_apply)" without type and parameters. */
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

static struct ncu_kernel kernel_of(const struct table *t, char *const field[])
{
    struct ncu_kernel k = {.seconds = value(t, TIME, field),
                           .bytes = value(t, BYTES, field),
                           .tensor = value(t, TENSOR, field),
                           .dram = value(t, DRAM, field),
                           .registers = -1};
    if (isnan(k.bytes))
        k.bytes = value(t, BYTES_READ, field) + value(t, BYTES_WRITTEN, field);
    if (isnan(k.tensor))
        k.tensor = value(t, TENSOR_OTHER, field);
    double registers = t->at[REGISTERS] < 0 ? NAN : number(field[t->at[REGISTERS]]);
    if (registers <= 255)
        k.registers = (int)registers;
    take_name(k.name, field[t->at[NAME]]);
    return k;
}

static bool is_id(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

/* A line that is a row of what came before it as the header. */
static enum status take_line(struct table *t, char *line, struct ncu_kernel **list, int *n)
{
    char *field[COLUMNS_MAX];
    if (line[0] != '"')
        return STATUS_OK;
    bool header = strncmp(line, "\"ID\",", 5) == 0;
    int fields = split(line, field);
    if (header && fields > 0) {
        take_header(t, fields, field);
        return STATUS_OK;
    }
    if (t->n == 0 || fields != t->n || t->at[NAME] < 0)
        return STATUS_OK;
    if (!*field[0])
        take_units(t, field);
    if (!is_id(field[0]))
        return STATUS_OK;
    if (*n == NCU_KERNELS_MAX)
        return status_fail(STATUS_DATA, "ncu lists more than %d kernels", NCU_KERNELS_MAX);
    if ((*n & (*n - 1)) == 0) { /* full at powers of two */
        struct ncu_kernel *more = realloc(*list, (size_t)(*n ? 2 * *n : 1) * sizeof *more);
        if (!more)
            return status_fail(STATUS_OOM, "no memory for kernels");
        *list = more;
    }
    (*list)[(*n)++] = kernel_of(t, field);
    return STATUS_OK;
}

enum status ncu_parse(char *text, struct ncu_kernel **kernel, int *n)
{
    struct table t = {0};
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
