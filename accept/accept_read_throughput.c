/* Reads metrics of training: the throughput of ampscale and of PyTorch, and the time of each kernel
 * of a step. */
#include "accept/accept_read.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

enum { WORK_SIZE = 48 };

/* --- throughput --- */

/* Writes a row's precision and batch, which metrics' names contain: "amp_256". If `ways`, also
 * writes the row's fusion and launch modes: "amp_256_fuse-none_no-graph". */
static void name_work(const json_t *row, bool ways, char out[WORK_SIZE])
{
    const char *fuse = accept_read_text(row, "fuse");
    snprintf(out, WORK_SIZE, "%.12s_%.0f", accept_read_text(row, "precision"),
             accept_read_number(row, "batch"));
    if (ways && *fuse)
        text_append(out, WORK_SIZE, "_fuse-%.10s_%s", fuse,
                    json_is_true(json_object_get(row, "graphs")) ? "graph" : "no-graph");
}

/* Sets *prefix to the text that stands for the trainer `who` in a metric's name; it is "" for
 * ampscale. Returns false for an unknown trainer. */
static bool name_who(const char *who, const char **prefix)
{
    static const char *const names[][2] = {{"ampscale", ""},
                                           {"ampscale, from files", "files_"},
                                           {"PyTorch eager", "peer_eager_"},
                                           {"PyTorch compile", "peer_compile_"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *prefix = names[i][1];
        if (strcmp(who, names[i][0]) == 0)
            return true;
    }
    return false;
}

static bool is_peer(const json_t *row)
{
    return strncmp(accept_read_text(row, "who"), "PyTorch", 7) == 0;
}

/* Returns the images/s of PyTorch's fastest mode at a row's precision and batch; NAN if PyTorch has
 * no result there. Writes the mode to `mode`, and why another mode is missing in the comparison:
 * "PyTorch eager only; PyTorch compile: out of time". */
static double fastest_peer(const json_t *rows, const json_t *row, char mode[ACCEPT_VALUE_SIZE])
{
    double best = NAN;
    char missing[ACCEPT_VALUE_SIZE] = "";
    *mode = '\0';
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);
        const char *who = accept_read_text(other, "who");
        double rate = accept_read_number(other, "images_per_s.median");
        if (!is_peer(other) ||
            accept_read_number(other, "batch") != accept_read_number(row, "batch") ||
            strcmp(accept_read_text(other, "precision"), accept_read_text(row, "precision")) != 0)
            continue;
        if (isnan(rate))
            text_append(missing, sizeof missing, "; %s: %s", who, accept_read_text(other, "why"));
        else if (isnan(best) || rate > best) {
            best = rate;
            snprintf(mode, ACCEPT_VALUE_SIZE, "%s", who);
        }
    }
    if (*missing)
        text_append(mode, ACCEPT_VALUE_SIZE, " only%s", missing);
    return best;
}

static enum status add_work(const json_t *rows, const json_t *row, bool ways,
                            struct accept_result *r)
{
    static const struct accept_column spread[] = {
        {"images_per_s.median", "images_per_s_{}", "images/s", ACCEPT_HIGHER},
        {"images_per_s.min", "lowest_{}", "images/s", ACCEPT_HIGHER},
        {"images_per_s.max", "highest_{}", "images/s", ACCEPT_HIGHER},
        {0}};
    char work[WORK_SIZE], of[ACCEPT_NAME_SIZE], name[ACCEPT_NAME_SIZE], mode[ACCEPT_VALUE_SIZE];
    const char *prefix;
    if (!name_who(accept_read_text(row, "who"), &prefix))
        return STATUS_OK;
    name_work(row, ways && !is_peer(row), work);
    snprintf(of, sizeof of, "%s%s", prefix, work);
    TRY(accept_read_row(spread, row, of, r));
    if (accept_read_number(row, "rounds") > 0) /* for a spec that asks for a result, not a speed */
        TRY(accept_read_row(COLUMNS({"rounds", "rounds_{}", "", ACCEPT_HIGHER}), row, of, r));
    TRY(accept_read_rung(row, of, r));
    if (*prefix)
        return STATUS_OK;
    double ratio = accept_read_number(row, "images_per_s.median") / fastest_peer(rows, row, mode);
    if (isnan(ratio))
        return STATUS_OK;
    snprintf(name, sizeof name, "peer_mode_%s", work);
    TRY(accept_result_text(r, name, mode));
    snprintf(name, sizeof name, "of_peer_%s", work);
    return accept_result_number(r, name, "x", ACCEPT_HIGHER, ratio);
}

static enum status read_rates(const struct accept_output *o, struct accept_result *r)
{
    const json_t *rows = json_object_get(o->json, "rows");
    bool ways = json_object_get(o->args, "fuse") || json_object_get(o->args, "graphs");
    for (size_t i = 0; i < json_array_size(rows); i++)
        TRY(add_work(rows, json_array_get(rows, i), ways, r));
    return json_array_size(rows) > 0
               ? STATUS_OK
               : status_fail(STATUS_DATA, "no row of throughput was measured");
}

const struct accept_reading accept_read_throughput[] = {
    {.column =
         COLUMNS({"net", "net", NULL}, {"peer", "peer", NULL}, {"peer_ended", "peer_ended", NULL},
                 {"image_size", "image_size", "px", ACCEPT_EVEN})},
    {.read = read_rates},
    {0}};

/* --- profile --- */

/* Adds metrics only for the SHOWN kernels that take longest; the command's record has all
 * kernels. */
static enum status read_kernels(const struct accept_output *o, struct accept_result *r)
{
    enum { SHOWN = 10 };
    static const struct accept_column columns[] = {
        {"time_us", "kernel_{}_us", "us", ACCEPT_LOWER},
        {"dram_share", "kernel_{}_dram", "%", ACCEPT_HIGHER, .scale = 100},
        {"tensor_share", "kernel_{}_tensor", "%", ACCEPT_HIGHER, .scale = 100},
        {0}};
    const json_t *kernels = json_object_get(o->json, "kernels");
    for (size_t i = 0; i < json_array_size(kernels) && i < SHOWN; i++) {
        const json_t *k = json_array_get(kernels, i);
        char number[24], name[ACCEPT_NAME_SIZE], text[ACCEPT_TEXT_SIZE];
        snprintf(number, sizeof number, "%02zu", i + 1);
        snprintf(name, sizeof name, "kernel_%s", number);
        snprintf(text, sizeof text, "%.80s, %.12s, x%.0f", accept_read_text(k, "name"),
                 accept_read_text(k, "phase"), accept_read_number(k, "count"));
        TRY(accept_result_text(r, name, text));
        TRY(accept_read_row(columns, k, number, r));
    }
    return STATUS_OK;
}

const struct accept_reading accept_read_profile[] = {
    {.column = COLUMNS({"tool", "tool", NULL})},
    {.rows = "kernels",
     .needs = "kernel",
     .column = COLUMNS({"", "kernels", "", ACCEPT_LOWER, .over = ACCEPT_ROWS})},
    {.column = COLUMNS({"totals.time_us", "step_us", "us", ACCEPT_LOWER},
                       {"totals.dram_bytes", "dram_bytes", "B", ACCEPT_LOWER})},
    {.read = read_kernels},
    {0}};
