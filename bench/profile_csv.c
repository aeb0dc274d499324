/* Reads ncu's CSV: a header, a row of units, then a row for each kernel. Between these lines there
 * may be messages of ncu ("==PROF== ...") and output of the program. */
#include "bench/profile_ncu.h"

#include "base/array.h"
#include "base/lines.h"
#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
