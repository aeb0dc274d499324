/* Verdicts of acceptances and comparisons: their names, their exit codes, and their XML for CI
 * servers. */
#pragma once

#include "base/text_new.h"

#include <jansson.h>
#include <stdbool.h>

/* In ascending order: the highest verdict of several checks is the overall verdict. */
enum verdict { VERDICT_PASS, VERDICT_SKIP, VERDICT_WARN, VERDICT_MISSING, VERDICT_FAIL };
enum { VERDICTS = VERDICT_FAIL + 1 };

/* Returns "PASS", "SKIP", "WARN", "MISSING" or "FAIL". */
const char *verdict_str(enum verdict v);

/* Returns the exit code for the counts of verdicts: 4 if a check failed; else 5 if a check is
 * missing or no check passed; else 0. With `strict`, a warning counts as a failure. */
int verdict_exit_code(const int count[VERDICTS], bool strict);

/* Returns {"PASS": n, ...}. */
json_t *verdict_counts_json(const int count[VERDICTS]);

/* A test suite in JUnit's XML. FAIL is written as a failure, MISSING as an error; WARN passes. If
 * junit_add fails, junit_write returns the failure. */
struct junit {
    struct text_stream cases;
    int count[VERDICTS];
    double seconds;
    bool output; /* the user names the file (output_file_open) */
};
MUST_CHECK enum status junit_begin(struct junit *j);

/* A property of a case, for programs that read the file. A property without a text is left out. */
struct junit_property {
    const char *name, *text;
};

/* A case of a suite. If the case did not pass, `type` and `message` describe why; NULL as `type`
 * stands for the name of the verdict. The message is also written as the case's output. A case that
 * passed therefore shows its numbers too. */
struct junit_case {
    const char *class, *name;
    enum verdict verdict;
    double seconds;
    const char *type, *message;
    const struct junit_property *property; /* (properties) */
    int properties;
};

void junit_add(struct junit *j, const struct junit_case *c);

/* Writes the file `path`, and ends the suite. `time` has the form "2024-01-31T12:00:00";
 * `host` or `time` is NULL if not known. */
MUST_CHECK enum status junit_write(struct junit *j, const char *suite, const char *host,
                                   const char *time, const char *path);
