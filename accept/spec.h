/* What hardware must do to be accepted, as a file says it: checks, and limits for what they
 * measure.
 *
 *   {
 *     "schema": 1,
 *     "name": "h200",                      letters, digits, '-', '_' and '.'
 *     "about": "what it is for",
 *     "device": "cuda",                    cpu, ref, cuda, or one GPU alone: cuda:2
 *     "devices": 8,                        how many of them a node has (default 1)
 *     "hardware": ["*H200*"],              patterns of the device's name; one of them must fit
 *     "checks": [{
 *       "name": "train-amp",
 *       "kind": "train",                   kind.h lists them
 *       "level": 2,                        1 seconds, 2 minutes, 3 tens of minutes, 4 hours
 *       "pass": 1,                         the part of the checks that it belongs to, for --pass
 *       "args": {"arch": "resnet50", "precision": "amp"},     as the kind has them
 *       "each": true,                      run on every device alone, as train-amp.0, .1 ...
 *       "repeats": 3,                      default 1
 *       "burn": true,                      repeated for as long as --hours says, if it is given;
 *                                          with "each" on all devices at the same time
 *       "seconds": 40,                     that a repeat takes, for the plan
 *       "limit_s": 300,                    seconds after which a repeat is ended, and has failed
 *       "limits": {"images_per_s": {
 *         "min": 2000, "max": 9000,        beyond these it fails,
 *         "warn_min": 2100, "warn_max": 8000,                beyond these it warns
 *         "baseline": 2470,                what is known to be reached, and by how many percent
 *         "within": 10, "warn_within": 5,                    a median may be worse
 *         "fleet_within": 10, "fleet_warn_within": 5,        than the median of all nodes'
 *         "matches": "535.*|550.*",        a text must fit one of these patterns
 *         "at_least": "535.104",           a version must be this or later
 *         "same": true,                    all repeats must give the same
 *         "absent": "skip",                what is not measured is skipped (default "missing")
 *         "source": "where the numbers come from"
 *       }}
 *     }]
 *   }
 *
 * A limit's name may be a pattern ("busbw_*") and then holds for each metric that fits and has no
 * limit of its own. Patterns know '*' and '?'. Nothing of a file is ever run or evaluated: a check
 * is a command of this program, and its args are numbers, words without a leading dash, and names
 * of other checks, whose output the command reads. */
#ifndef ACCEPT_SPEC_H
#define ACCEPT_SPEC_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Grows when a reader of the previous version would misunderstand. */
enum { ACCEPT_SPEC_SCHEMA = 1 };

enum {
    ACCEPT_NAME_SIZE = 64,
    ACCEPT_TEXT_SIZE = 128,
    ACCEPT_MATCHES_SIZE = 512,
    ACCEPT_SOURCE_SIZE = 320,
    ACCEPT_CHECKS_MAX = 256,
    ACCEPT_LIMITS_MAX = 64,
    ACCEPT_PATTERNS_MAX = 16,
    ACCEPT_DEVICES_MAX = 64,
    ACCEPT_REPEATS_MAX = 1000,
    ACCEPT_LEVEL_MAX = 4,
    ACCEPT_PASS_MAX = 9,
};

/* Bounds of one metric. A number that is not given is NAN, a text "". Shares are of 1: 0.05. */
struct accept_limit {
    char metric[ACCEPT_NAME_SIZE]; /* or a pattern */
    double min, max, warn_min, warn_max;
    double baseline, within, warn_within;
    double fleet_within, fleet_warn_within;
    char matches[ACCEPT_MATCHES_SIZE]; /* patterns with '|' between them: one must fit */
    char at_least[ACCEPT_TEXT_SIZE];
    bool same;
    bool may_lack; /* "absent": "skip" */
    char source[ACCEPT_SOURCE_SIZE];
};

struct accept_kind;

struct accept_check {
    char name[ACCEPT_NAME_SIZE];
    const struct accept_kind *kind;
    int level;
    int pass;   /* 0: none */
    bool asked; /* to be run: all are, but for accept_spec_select */
    int device; /* the one it runs on; -1: all of them */
    int repeats;
    bool burn;
    int together;   /* checks, from this one on, that run at the same time; 1: it alone */
    double seconds; /* of a repeat, expected */
    int64_t limit_s;
    const json_t *args; /* an object, checked; NULL: none */
    int n_limits;
    struct accept_limit *limit; /* (n_limits) */
};

struct accept_spec {
    char name[ACCEPT_NAME_SIZE];
    const char *about;
    char device[8];
    int only_device; /* the only one's index; -1: all of them */
    int n_devices;
    int n_patterns;
    char pattern[ACCEPT_PATTERNS_MAX][ACCEPT_TEXT_SIZE];
    int n_checks;
    struct accept_check *check; /* (n_checks), the first is "hardware": whether the devices are
                                 * there, and what the spec is for */
    json_t *json;               /* as it was read */
    const char *peer; /* program that checks take turns with, from the command line and never
                       * from a spec; NULL: none */
};

/* Reads a spec; `from` is named in messages. STATUS_USAGE says what is wrong with it and where.
 * `devices` takes the place of the spec's number of devices; 0: as the spec says. On success the
 * caller frees with accept_spec_free. */
MUST_CHECK enum status accept_spec_parse(const char *text, size_t size, const char *from,
                                         int devices, struct accept_spec *spec);

/* The spec that comes with the program under this name, or that a file holds: a file's name has a
 * '.' or a '/'. `device` takes the place of the spec's device, one of it unless `devices` says
 * another number; NULL: as the spec says. */
MUST_CHECK enum status accept_spec_load(const char *name, const char *device, int devices,
                                        struct accept_spec *spec);
void accept_spec_free(struct accept_spec *spec); /* fine on a zeroed struct */

/* Leaves the checks asked for whose names are in `only`, a list with commas (NULL: all), and that
 * belong to `pass` (0: any); the first check, "hardware", always is. STATUS_USAGE where there is no
 * such check or pass. */
MUST_CHECK enum status accept_spec_select(struct accept_spec *spec, const char *only, int pass);

/* Names of the specs that come with the program, ending with NULL, and their text; NULL for another
 * name. */
extern const char *const accept_presets[];
const char *accept_preset(const char *name);

/* The limit that holds for a metric; NULL: none. */
const struct accept_limit *accept_limit_for(const struct accept_check *check, const char *metric);

/* Whether a text fits a pattern of '*' and '?', or one of several with '|' between them. Takes no
 * more than the product of their lengths. */
bool accept_matches(const char *patterns, const char *text);

/* Reads the bounds of one metric (limit.c); `where` is named in messages. */
MUST_CHECK enum status accept_limit_parse(const json_t *object, const char *metric,
                                          const char *where, struct accept_limit *limit);
#endif
