/* Metrics of whole training steps: in turns with PyTorch's, and kernel by kernel. */
#include "accept/read.h"

#include <math.h>
#include <string.h>

enum { WORK_SIZE = 48 };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* --- throughput --- */

/* What a row trains, as a part of metrics' names: "amp_256", and where several ways were asked for
 * the way too: "amp_256_fuse-none_no-graph". */
static void name_work(const json_t *row, bool ways, char out[WORK_SIZE])
{
    const json_t *graphs = json_object_get(row, "graphs");
    size_t used = (size_t)snprintf(out, WORK_SIZE, "%.12s_%.0f", text_at(row, "precision"),
                                   accept_read_number(row, "batch"));
    if (ways && *text_at(row, "fuse"))
        snprintf(out + used, WORK_SIZE - used, "_fuse-%.10s_%s", text_at(row, "fuse"),
                 json_is_true(graphs) ? "graph" : "no-graph");
}

/* The part of metrics' names that says who trained: ampscale has none. False for a stranger. */
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
    const char *who = text_at(row, "who");
    return strstr(who, "PyTorch") == who;
}

/* Images/s of the fastest of PyTorch's ways at a row's precision and batch; NAN where there is
 * none.
 */
static double fastest_peer(const json_t *rows, const json_t *row)
{
    double best = NAN;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);
        if (is_peer(other) && strcmp(text_at(other, "precision"), text_at(row, "precision")) == 0 &&
            accept_read_number(other, "batch") == accept_read_number(row, "batch"))
            best = fmax(best, accept_read_number(json_object_get(other, "images_per_s"), "median"));
    }
    return best;
}

/* Text metrics of a row: the rung that it ran on, and why it fell there or was not measured. */
static enum status add_rung(const json_t *row, const char of[ACCEPT_NAME_SIZE],
                            struct accept_result *r)
{
    char name[ACCEPT_NAME_SIZE + 16];
    const json_t *falls = json_object_get(row, "falls");
    const char *rung = text_at(row, "rung"), *why = text_at(row, "why");
    if (!*why)
        why = text_at(json_array_get(falls, 0), "why");
    snprintf(name, sizeof name, "rung_%s", of);
    TRY(*rung ? accept_result_text(r, name, rung) : STATUS_OK);
    snprintf(name, sizeof name, "falls_%s", of);
    TRY(*rung ? accept_result_number(r, name, "", ACCEPT_LOWER, (double)json_array_size(falls))
              : STATUS_OK);
    snprintf(name, sizeof name, "why_%s", of);
    return *why ? accept_result_text(r, name, why) : STATUS_OK;
}

static enum status add_row(const json_t *rows, const json_t *row, bool ways,
                           struct accept_result *r)
{
    static const struct {
        const char *key, *name;
    } spread[] = {{"median", "images_per_s"}, {"min", "lowest"}, {"max", "highest"}};
    char work[WORK_SIZE], of[ACCEPT_NAME_SIZE], name[ACCEPT_NAME_SIZE * 2];
    const char *prefix;
    const json_t *rate = json_object_get(row, "images_per_s");
    if (!name_who(text_at(row, "who"), &prefix))
        return STATUS_OK;
    name_work(row, ways && !is_peer(row), work);
    snprintf(of, sizeof of, "%s%s", prefix, work);
    for (size_t i = 0; i < sizeof spread / sizeof *spread; i++) {
        snprintf(name, sizeof name, "%s_%s", spread[i].name, of);
        TRY(accept_result_number(r, name, "images/s", ACCEPT_HIGHER,
                                 accept_read_number(rate, spread[i].key)));
    }
    TRY(add_rung(row, of, r));
    if (*prefix)
        return STATUS_OK;
    snprintf(name, sizeof name, "of_peer_%s", work);
    return accept_result_number(r, name, "x", ACCEPT_HIGHER,
                                accept_read_number(rate, "median") / fastest_peer(rows, row));
}

enum status accept_read_throughput(const struct accept_spec *spec, const struct accept_check *check,
                                   const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)dir;
    const json_t *rows = json_object_get(output, "rows");
    bool ways = json_object_get(check->args, "fuse") || json_object_get(check->args, "graphs");
    static const char *const texts[] = {"net", "peer", "peer_ended"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*text_at(output, texts[i]))
            TRY(accept_result_text(r, texts[i], text_at(output, texts[i])));
    TRY(accept_result_number(r, "image_size", "px", ACCEPT_EVEN,
                             accept_read_number(output, "image_size")));
    for (size_t i = 0; i < json_array_size(rows); i++)
        TRY(add_row(rows, json_array_get(rows, i), ways, r));
    return json_array_size(rows) > 0
               ? STATUS_OK
               : status_fail(STATUS_DATA, "no row of throughput was measured");
}

/* --- profile --- */

/* The kernels that take longest, a line each; the record has all. */
static enum status add_kernels(const json_t *kernels, struct accept_result *r)
{
    enum { SHOWN = 10 };
    for (size_t i = 0; i < json_array_size(kernels) && i < SHOWN; i++) {
        const json_t *k = json_array_get(kernels, i);
        char name[ACCEPT_NAME_SIZE], text[ACCEPT_TEXT_SIZE];
        snprintf(name, sizeof name, "kernel_%02zu", i + 1);
        snprintf(text, sizeof text, "%.80s, %.12s, x%.0f", text_at(k, "name"), text_at(k, "phase"),
                 accept_read_number(k, "count"));
        TRY(accept_result_text(r, name, text));
        snprintf(name, sizeof name, "kernel_%02zu_us", i + 1);
        TRY(accept_result_number(r, name, "us", ACCEPT_LOWER, accept_read_number(k, "time_us")));
        snprintf(name, sizeof name, "kernel_%02zu_dram", i + 1);
        TRY(accept_result_number(r, name, "%", ACCEPT_HIGHER,
                                 100 * accept_read_number(k, "dram_share")));
        snprintf(name, sizeof name, "kernel_%02zu_tensor", i + 1);
        TRY(accept_result_number(r, name, "%", ACCEPT_HIGHER,
                                 100 * accept_read_number(k, "tensor_share")));
    }
    return STATUS_OK;
}

enum status accept_read_profile(const struct accept_spec *spec, const struct accept_check *check,
                                const json_t *output, const char *dir, struct accept_result *r)
{
    (void)spec, (void)check, (void)dir;
    const json_t *kernels = json_object_get(output, "kernels"),
                 *totals = json_object_get(output, "totals");
    TRY(*text_at(output, "tool") ? accept_result_text(r, "tool", text_at(output, "tool"))
                                 : STATUS_OK);
    if (json_array_size(kernels) == 0)
        return status_fail(STATUS_DATA, "the profile tells of no kernel");
    TRY(accept_result_number(r, "kernels", "", ACCEPT_LOWER, (double)json_array_size(kernels)));
    TRY(accept_result_number(r, "step_us", "us", ACCEPT_LOWER,
                             accept_read_number(totals, "time_us")));
    TRY(accept_result_number(r, "dram_bytes", "B", ACCEPT_LOWER,
                             accept_read_number(totals, "dram_bytes")));
    return add_kernels(kernels, r);
}
