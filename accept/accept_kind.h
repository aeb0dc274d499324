/* Kinds of checks: the command of this program that measures, and how its output is read.
 *
 * A new kind needs an entry in the table of accept_kind.c, and a list of readings (accept_read.h).
 */
#pragma once

#include "accept/accept_read.h"

enum accept_arg_type {
    ACCEPT_ARG_COUNT,  /* a whole number */
    ACCEPT_ARG_WORD,   /* letters, digits, '-', '_' and '.'; the first is no '-' */
    ACCEPT_ARG_LIST,   /* words separated by ',', each with an optional ':': "amp:256,bf16" */
    ACCEPT_ARG_OUTPUT, /* another check's name; the file of its output is passed if it exists */
    ACCEPT_ARG_PEER,   /* true: the peer named on accept's command line is passed; false: nothing */
    ACCEPT_ARG_SWITCH, /* true: the flag alone is passed; false: nothing */
};

/* One argument of a kind; its value follows `flag` on the command line. */
struct accept_arg {
    const char *name;
    enum accept_arg_type type;
    const char *flag;      /* NULL: the value is passed without a flag */
    const char *otherwise; /* default, if the check does not give the argument; NULL: none */
    int64_t min, max;      /* bounds of a number */
};

/* Argument of the kinds that `launch` may start: the number of processes, one per device. */
#define ACCEPT_RANKS_ARG "ranks"

struct accept_kind {
    const char *name;
    const char *about;
    const char *const *words;     /* the command after the program's name; ends with NULL */
    const struct accept_arg *arg; /* ends with a name of NULL */
    bool on_device;               /* takes --devices: the device of the check or, without one, of
                                   * the spec */
    bool on_gpus;                 /* takes --devices: all GPUs in one process */
    bool ranks;                   /* with "ranks" above 1, 'ampscale launch' starts it */
    bool folder;                  /* takes --out; its results are read from that folder */
    const char *budget;           /* flag of the time limit in seconds, within which the command
                                   * prints its results so far; NULL: none */
    const struct accept_reading *reading;
};

extern const struct accept_kind accept_kinds[]; /* ends with a name of NULL */

/* The kind of that name; NULL: there is none. */
const struct accept_kind *accept_kind_find(const char *name);

/* STATUS_USAGE unless `args`, an object or NULL, are valid arguments of the kind. */
MUST_CHECK enum status accept_args_check(const struct accept_kind *kind, const json_t *args,
                                         const char *where);
