/* Reads a worker's log. */
#include "verify/operations_result.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_MAX_BYTES = 256 << 20 };

void operations_add_failure(struct operations_result *r, const struct operations_kind *k,
                            int number, const char *reason)
{
    int of_kind = 0;
    for (int i = 0; i < r->n_failures; i++)
        of_kind += r->failure[i].kind == k->name;
    if (of_kind == OPERATIONS_FAILURES_OF_KIND || r->n_failures == OPERATIONS_FAILURES_MAX)
        return;
    struct operations_failure *f = &r->failure[r->n_failures++];
    f->kind = k->name;
    f->number = number;
    text_clean(f->reason, sizeof f->reason, reason);
}

/* The text after "=========" if the line is the first line of a sanitizer's finding, else NULL. The
 * finding's other lines are indented. Summaries, warnings and the tool's own errors ("Error: ") are
 * not findings; racecheck's errors, which name a race or a hazard, are findings. */
static const char *finding_of(const char *line)
{
    static const char *const other[] = {"COMPUTE-SANITIZER", "SUMMARY",   "Warning",
                                        "Target ",           "Internal ", "Device not supported"};
    size_t marks = strspn(line, "=");
    if (marks < 3 || line[marks] != ' ' || !isupper((unsigned char)line[marks + 1]))
        return NULL;
    const char *text = line + marks + 1;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strstr(text, other[i]))
            return NULL;
    bool error = strncmp(text, "Error: ", strlen("Error: ")) == 0;
    return !error || strstr(text, "Race") || strstr(text, "hazard") ? text : NULL;
}

static void read_line(struct operations_result *r, struct operations_kind *k, const char *line,
                      struct operations_progress *progress)
{
    char word[8] = "";
    int number = 0, used = 0;
    const char *finding = finding_of(line);
    if (finding && !*r->first_finding)
        text_clean(r->first_finding, sizeof r->first_finding, finding);
    if (finding && k->findings == 0)
        operations_add_failure(r, k, progress->at, finding);
    k->findings += finding != NULL;
    r->unsupported = r->unsupported || strstr(line, "Device not supported");
    progress->done = progress->done || strcmp(line, "done") == 0;
    if (sscanf(line, "%7s %d %n", word, &number, &used) != 2 || number < 0 || number >= r->list->n)
        return;
    const char *form = line + used, *colon = strstr(form, ": "), *why = colon ? colon + 2 : "";
    if (strcmp(word, "at") == 0) {
        progress->at = number;
    } else if (strcmp(word, "pass") == 0) {
        k->passed++;
    } else if (strcmp(word, "skip") == 0) {
        k->skipped++;
        if (!*k->skip)
            text_clean(k->skip, sizeof k->skip, why);
    } else if (strcmp(word, "FAIL") == 0) {
        k->failed++;
        operations_add_failure(r, k, number, why);
    }
}

enum status operations_read_log(struct operations_result *r, struct operations_kind *k,
                                const char *path, struct operations_progress *progress)
{
    char *bytes, *rest, *line;
    size_t size;
    *progress = (struct operations_progress){.at = -1};
    TRY(file_read(path, LOG_MAX_BYTES, &bytes, &size));
    rest = bytes;
    while ((line = strsep(&rest, "\n")))
        read_line(r, k, line, progress);
    free(bytes);
    return STATUS_OK;
}
