/* The measurements of an acceptance, and their verdicts.
 *
 * The folder of a node:
 *
 *   spec.json               the spec, as it was read
 *   checks/<check>.json     a check's measurements, written as a whole after the check has ended
 *   checks/<check>/r<k>/    output of the check's k-th repeat: output.json, log, run/, work/
 *   accept.json             all results, with verdicts; accept.md, .html and .xml say the same
 *
 * Verdicts are a pure function of the spec and the measurements (accept_judge.h), so that they can
 * be computed again later, also together with the results of other nodes. */
#pragma once

#include "base/status.h"

#include "results/noise.h"
#include "results/verdict.h"

#include <jansson.h>
#include <stdbool.h>

/* Version of the format; increases when a program that reads the previous version would
 * misunderstand the new one. */
enum { ACCEPT_SCHEMA = 1 };

#define ACCEPT_FILE "accept.json"

/* Format of the spec and of the checks' results: numbers read back exactly, because a resumed
 * acceptance compares specs, and the bits of repeats. */
#define ACCEPT_JSON JSON_EXACT

enum {
    ACCEPT_NAME_SIZE = 64,
    ACCEPT_TEXT_SIZE = 128,
    ACCEPT_VALUE_SIZE = 512, /* a metric's text, such as the message of a failure */
    ACCEPT_SOURCE_SIZE = 320,
    ACCEPT_UNIT_SIZE = 16,
    ACCEPT_REASON_SIZE = 400,
    ACCEPT_COMMAND_SIZE = 1024,
    ACCEPT_WHERE_SIZE = 96,
    ACCEPT_METRICS_MAX = 512,
    ACCEPT_PATH_SIZE = 4096,
    ACCEPT_CHECKS_MAX = 256,
    ACCEPT_DEVICES_MAX = 64,
    ACCEPT_REPEATS_MAX = 1000,
    ACCEPT_LEVEL_MAX = 4,
};

/* Which values of a metric are better. ACCEPT_EVEN: neither higher nor lower; a baseline bounds the
 * metric on both sides. */
enum accept_better { ACCEPT_EVEN, ACCEPT_HIGHER, ACCEPT_LOWER };
const char *accept_better_str(enum accept_better b); /* "even", "higher", "lower" */

struct accept_metric {
    char name[ACCEPT_NAME_SIZE];
    char unit[ACCEPT_UNIT_SIZE]; /* "": a number without a unit, or a text */
    enum accept_better better;
    int n;                           /* number of repeats that measured the metric */
    double *number;                  /* (n); NULL: a text */
    char (*text)[ACCEPT_VALUE_SIZE]; /* (n); NULL: a number */
    char where[ACCEPT_WHERE_SIZE];   /* place of the worst number: "node7 cuda:3"; "": none */
    /* The verdict: */
    enum verdict verdict;
    bool fleet_only;                 /* the verdict is SKIP: the limit needs a fleet baseline */
    bool withheld;                   /* the verdict is MISSING: the check was disturbed */
    char limit[ACCEPT_REASON_SIZE];  /* the limit as text; "": no limit, the verdict is SKIP */
    char reason[ACCEPT_REASON_SIZE]; /* why the metric did not pass */
    char source[ACCEPT_SOURCE_SIZE]; /* source of the limit */
};

struct accept_result {
    char name[ACCEPT_NAME_SIZE];
    char kind[ACCEPT_NAME_SIZE];
    int level;
    int device;  /* -1: all */
    int repeats; /* repeats that have ended; 0: the check was not run */
    int wanted;  /* repeats that the spec asks for */
    double seconds;
    char command[ACCEPT_COMMAND_SIZE]; /* command line of the first repeat, quoted for a shell */
    /* How the check ended, and why. PASS: completed; FAIL: a crash, a hang or a failure; MISSING:
     * could not be measured; SKIP: not selected. */
    enum verdict ended;
    char ended_why[ACCEPT_REASON_SIZE];
    struct host_noise noise; /* of the most disturbed repeat (accept_noise.h); noise.seconds is not
                              * above 0: not known */
    int n_metrics;
    struct accept_metric *metric;    /* (n_metrics) */
    enum verdict verdict;            /* the worst of `ended` and the metrics' verdicts */
    char reason[ACCEPT_REASON_SIZE]; /* why the check did not pass */
};

struct accept_report {
    char spec[ACCEPT_NAME_SIZE];
    char node[ACCEPT_TEXT_SIZE];       /* host's name */
    char device[ACCEPT_TEXT_SIZE * 2]; /* the first device's description; "": not known */
    char begun[32], ended[32];         /* "2024-01-31T12:00:00Z" */
    char version[ACCEPT_NAME_SIZE];    /* version of the program */
    int level;
    int n_checks;
    struct accept_result *check; /* (n_checks) */
    int count[VERDICTS];         /* checks of each verdict */
};

/* Append a measurement to a metric; the first measurement creates the metric. A number that is not
 * finite is ignored. STATUS_DATA for too many metrics, and for a metric that has both numbers and
 * texts. */
MUST_CHECK enum status accept_result_number(struct accept_result *r, const char *name,
                                            const char *unit, enum accept_better better,
                                            double value);
MUST_CHECK enum status accept_result_text(struct accept_result *r, const char *name,
                                          const char *text);

/* Sets the place where the last appended number was measured. The metric keeps only the place of
 * its worst repeat; for ACCEPT_EVEN the repeat with the highest number is the worst. */
void accept_metric_place(struct accept_metric *m, const char *where);

/* The metric of that name; NULL: it was not measured. */
struct accept_metric *accept_metric_find(const struct accept_result *r, const char *name);

/* The median over a metric's repeats; NAN for a text metric, and if there is no repeat. */
double accept_metric_median(const struct accept_metric *m);

void accept_result_free(struct accept_result *r); /* no-op on a zeroed struct */
void accept_report_free(struct accept_report *r); /* likewise */

/* New objects that the caller owns; NULL when memory is short.
 *   {"record": "accept", "schema": 1, "spec", "node", "device", "begun", "ended", "version",
 *    "level", "passed", "counts": {"PASS": n, ...}, "metric_counts": {...}, "checks": [{"name",
 * "kind", "level", "device", "repeats", "wanted", "seconds", "command", "ended", "ended_why",
 * "reason", "noise", "verdict", "metrics": [{"name", "unit", "better", "values": [number or text],
 * "where", "median", "min", "max", "verdict", "limit", "reason", "source"}]}], "note":
 * accept_note's line or
 * ""} */
json_t *accept_result_json(const struct accept_result *r);
json_t *accept_report_json(const struct accept_report *r);

/* Read an object of accept_result_json or accept_report_json; STATUS_DATA if it is invalid. On
 * success the caller frees the result. */
MUST_CHECK enum status accept_result_parse(const json_t *object, struct accept_result *r);
MUST_CHECK enum status accept_report_parse(const json_t *object, struct accept_report *r);

/* Reads <dir>/accept.json. STATUS_DATA if there is none, or if it is damaged. */
MUST_CHECK enum status accept_report_load(const char *dir, struct accept_report *r);
