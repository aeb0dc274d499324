/* The requirements for accepting hardware, read from a file: checks, and limits for their metrics.
 *
 * docs/reference/specs.md and docs/schema/accept-spec.schema.json describe the file. A check of
 * kind "train" with the name "train-amp" and "each" becomes the checks "train-amp.0", "train-amp.1"
 * ...; with "burn" they run at the same time. A repeat that exceeds its limit_s is stopped: the
 * verdict is then FAIL, or MISSING if accept_kind.budget is not NULL.
 *
 * A limit's name may be a pattern ("busbw_*"). The limit then holds for each metric that matches
 * the pattern, unless another limit has the metric's full name. Patterns have '*' and '?'. Nothing
 * in a file is run or evaluated: a check is a command of this program, and its args are numbers,
 * words without a leading dash, and names of other checks, whose output the command reads. */
#pragma once

#include "accept/accept_result.h"
#include "base/preset.h"

/* Version of the format; increases when a program that reads the previous version would
 * misunderstand the new one. */
enum { ACCEPT_SPEC_SCHEMA = 1 };

enum {
    ACCEPT_MATCHES_SIZE = 512,
    ACCEPT_LIMITS_MAX = 64,
    ACCEPT_PATTERNS_MAX = 16,
    ACCEPT_PASS_MAX = 9,
};

/* Bounds of one metric. A number that is not given is NAN, and a text that is not given is "".
 * Percentages are stored as fractions: 5 % is 0.05. */
struct accept_limit {
    char metric[ACCEPT_NAME_SIZE]; /* or a pattern */
    double min, max, warn_min, warn_max;
    double baseline, within, warn_within;
    double fleet_within, fleet_warn_within;
    char matches[ACCEPT_MATCHES_SIZE]; /* patterns separated by '|': one must match */
    char at_least[ACCEPT_TEXT_SIZE];
    bool same;
    bool may_lack; /* the limit has "absent": "skip" */
    char source[ACCEPT_SOURCE_SIZE];
};

struct accept_kind;

struct accept_check {
    char name[ACCEPT_NAME_SIZE];
    const struct accept_kind *kind;
    int level;
    int pass;   /* 0: none */
    bool asked; /* selected; true unless accept_spec_select clears it */
    int device; /* index of the only device that the check uses; -1: it uses all devices */
    int repeats;
    bool burn;
    int together;   /* number of checks that run at the same time, counted from this check on */
    double seconds; /* expected duration of a repeat */
    int64_t limit_s;
    const json_t *args; /* an object of valid arguments; NULL: none */
    int n_limits;
    struct accept_limit *limit; /* (n_limits) */
};

struct accept_spec {
    char name[ACCEPT_NAME_SIZE];
    const char *about;
    char device[8];
    int only_device; /* index of the only device; -1: all devices */
    int n_devices;
    int n_patterns;
    char pattern[ACCEPT_PATTERNS_MAX][ACCEPT_TEXT_SIZE];
    int n_checks;
    struct accept_check *check; /* (n_checks); the first check, "hardware", checks that the devices
                                 * exist and that the spec is for them */
    json_t *json;               /* the spec as it was read */
    const char *peer;           /* peer program; checks run it and ampscale in turn, to compare
                                 * them. Only the command line can name it, never a spec. NULL:
                                 * none */
};

/* Reads a spec; `from` is its name in messages. STATUS_USAGE for an invalid spec: the message names
 * the error and its place. `devices` replaces the spec's number of devices, unless it is 0. On
 * success the caller frees with accept_spec_free. */
MUST_CHECK enum status accept_spec_parse(const char *text, size_t size, const char *from,
                                         int devices, struct accept_spec *spec);

/* Loads the preset `name`, or the file `name` if it has a '.' or a '/'. `device` replaces the
 * spec's device, unless it is NULL; the spec then has `devices` devices, or one if `devices` is
 * 0. */
MUST_CHECK enum status accept_spec_load(const char *name, const char *device, int devices,
                                        struct accept_spec *spec);
void accept_spec_free(struct accept_spec *spec); /* no-op on a zeroed struct */

/* Selects checks: sets `asked` of the checks that are named in the comma-separated list `only`
 * (NULL: all checks) and belong to the group number `pass` (0: any group). The first check,
 * "hardware", is always selected. STATUS_USAGE if there is no such check or group. */
MUST_CHECK enum status accept_spec_select(struct accept_spec *spec, const char *only, int pass);

/* The specs that come with the program. */
extern const struct preset accept_presets[];

/* The limit that applies to a metric; NULL: none. */
const struct accept_limit *accept_limit_for(const struct accept_check *check, const char *metric);

/* Whether a text matches a pattern of '*' and '?', or one of several patterns separated by '|'. The
 * time is at most proportional to the product of the lengths. */
bool accept_matches(const char *patterns, const char *text);

/* Reads the bounds of one metric (accept_limit.c); `where` is their place in messages. */
MUST_CHECK enum status accept_limit_parse(const json_t *object, const char *metric,
                                          const char *where, struct accept_limit *limit);
