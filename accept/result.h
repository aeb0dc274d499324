/* What an acceptance measured, and what it comes to.
 *
 * The folder of a node:
 *
 *   spec.json               the spec, as it was read
 *   checks/<check>.json     what a check measured: there when the check has ended, whole or absent
 *   checks/<check>/r<k>/    what its k-th repeat wrote: output.json, log, run/
 *   accept.json             all of it, with verdicts; accept.md, .html and .xml tell the same
 *
 * Verdicts are a pure function of the spec and of what was measured (judge.h), so that they can be
 * found again, over other nodes' results too. */
#ifndef ACCEPT_RESULT_H
#define ACCEPT_RESULT_H

#include "accept/spec.h"

/* Grows when a reader of the previous version would misunderstand. */
enum { ACCEPT_SCHEMA = 1 };

#define ACCEPT_FILE "accept.json"

enum {
    ACCEPT_UNIT_SIZE = 16,
    ACCEPT_REASON_SIZE = 400,
    ACCEPT_COMMAND_SIZE = 1024,
    ACCEPT_WHERE_SIZE = 96,
    ACCEPT_METRICS_MAX = 512,
    ACCEPT_PATH_SIZE = 4096,
};

/* In the order in which they count: the worst of a check's metrics is the check's. */
enum accept_verdict { ACCEPT_PASS, ACCEPT_SKIP, ACCEPT_WARN, ACCEPT_MISSING, ACCEPT_FAIL };
enum { ACCEPT_VERDICTS = ACCEPT_FAIL + 1 };

/* "PASS", "SKIP", "WARN", "MISSING", "FAIL" */
const char *accept_verdict_str(enum accept_verdict v);

/* Which way a metric is better. Of ACCEPT_EVEN neither is: a baseline holds on both sides. */
enum accept_better { ACCEPT_EVEN, ACCEPT_HIGHER, ACCEPT_LOWER };
const char *accept_better_str(enum accept_better b); /* "even", "higher", "lower" */

struct accept_metric {
    char name[ACCEPT_NAME_SIZE];
    char unit[ACCEPT_UNIT_SIZE]; /* "": a number without one, or a text */
    enum accept_better better;
    int n;                          /* repeats that measured it */
    double *number;                 /* (n); NULL: a text */
    char (*text)[ACCEPT_TEXT_SIZE]; /* (n); NULL: a number */
    char where[ACCEPT_WHERE_SIZE];  /* of the worst number: "node7 cuda:3"; "": no matter */
    /* What it was judged to be: */
    enum accept_verdict verdict;
    bool fleet_only;                 /* SKIP, because only other nodes would be a measure for it */
    char limit[ACCEPT_REASON_SIZE];  /* in words; "": none, and the verdict is SKIP */
    char reason[ACCEPT_REASON_SIZE]; /* for what did not pass */
    char source[ACCEPT_SOURCE_SIZE]; /* of the limit */
};

struct accept_result {
    char name[ACCEPT_NAME_SIZE];
    char kind[ACCEPT_NAME_SIZE];
    int level;
    int device;  /* -1: all */
    int repeats; /* that ran to their end; 0: it was not run */
    int wanted;  /* repeats */
    double seconds;
    char command[ACCEPT_COMMAND_SIZE]; /* of the first repeat, for a shell */
    /* What ended it early, and why: PASS where nothing did; FAIL for a crash, a hang, a failure;
     * MISSING for what could not be measured. */
    enum accept_verdict ended;
    char ended_why[ACCEPT_REASON_SIZE];
    int n_metrics;
    struct accept_metric *metric;    /* (n_metrics) */
    enum accept_verdict verdict;     /* the worst of all that */
    char reason[ACCEPT_REASON_SIZE]; /* for what did not pass */
};

struct accept_report {
    char spec[ACCEPT_NAME_SIZE];
    char node[ACCEPT_TEXT_SIZE];       /* host's name */
    char device[ACCEPT_TEXT_SIZE * 2]; /* the first one's description; "": not known */
    char begun[32], ended[32];         /* "2024-01-31T12:00:00Z" */
    char version[ACCEPT_NAME_SIZE];    /* of the program */
    int level;
    int n_checks;
    struct accept_result *check; /* (n_checks) */
    int count[ACCEPT_VERDICTS];  /* checks of each verdict */
};

/* Appends a measurement of a metric, which begins with the first one. A number that is not finite
 * is no measurement, and is left out. STATUS_DATA for too many metrics, and for a number of one
 * whose other measurements are texts, or the other way round. */
MUST_CHECK enum status accept_result_number(struct accept_result *r, const char *name,
                                            const char *unit, enum accept_better better,
                                            double value);
MUST_CHECK enum status accept_result_text(struct accept_result *r, const char *name,
                                          const char *text);

/* Says where the number that was appended last was measured; of the repeats the worst one's place
 * is kept, the highest being the worst where neither way is. */
void accept_metric_place(struct accept_metric *m, const char *where);

/* NULL: it was not measured. */
struct accept_metric *accept_metric_find(const struct accept_result *r, const char *name);

/* The median of a number's repeats; NAN of a text and of none. */
double accept_metric_median(const struct accept_metric *m);

void accept_result_free(struct accept_result *r); /* fine on a zeroed struct */
void accept_report_free(struct accept_report *r); /* likewise */

/* New objects that the caller owns; NULL when memory is short.
 *   {"record": "accept", "schema": 1, "spec", "node", "device", "begun", "ended", "version",
 *    "level", "passed", "counts": {"PASS": n, ...}, "metric_counts": {...}, "checks": [{"name",
 * "kind", "level", "device", "repeats", "wanted", "seconds", "command", "ended", "ended_why",
 * "reason", "verdict", "metrics": [{"name", "unit", "better", "values": [number or text], "where",
 * "median", "min", "max", "verdict", "limit", "reason", "source"}]}], "note": accept_note's line or
 * ""} */
json_t *accept_result_json(const struct accept_result *r);
json_t *accept_report_json(const struct accept_report *r);

/* Reads one; STATUS_DATA for anything else. On success the caller frees. */
MUST_CHECK enum status accept_result_parse(const json_t *object, struct accept_result *r);
MUST_CHECK enum status accept_report_parse(const json_t *object, struct accept_report *r);

/* Reads <dir>/accept.json. STATUS_DATA where there is none, or a damaged one. */
MUST_CHECK enum status accept_report_load(const char *dir, struct accept_report *r);
#endif
