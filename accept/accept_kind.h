/* Kinds of checks. A kind names the command of this program that takes the measurements, and
 * describes how the command's output is read.
 *
 * A new kind needs an entry in the table of accept_kind.c, and a list of readings
 * (accept_read.h). */
#pragma once

#include "accept/accept_read.h"

enum accept_arg_type {
    ACCEPT_ARG_COUNT,  /* a whole number */
    ACCEPT_ARG_WORD,   /* letters, digits, '-', '_' and '.'; does not begin with '-' */
    ACCEPT_ARG_LIST,   /* words separated by ','; a word may have a ':': "amp:256,bf16" */
    ACCEPT_ARG_OUTPUT, /* name of another check; passes that check's output file, if any */
    ACCEPT_ARG_PEER,   /* true: passes the peer program given on the command line of `accept` */
    ACCEPT_ARG_SWITCH, /* true: passes the flag, which has no value */
};

/* One argument of a kind; its value follows `flag` on the command line. */
struct accept_arg {
    const char *name;
    enum accept_arg_type type;
    const char *flag;      /* NULL: the value is passed without a flag */
    const char *otherwise; /* default, if the check does not give the argument; NULL: no default */
    int64_t min, max;      /* bounds of a number */
};

/* Name of the argument with the number of processes (default: one per device). Only the kinds that
 * 'ampscale launch' can start have this argument. */
#define ACCEPT_RANKS_ARG "ranks"

struct accept_kind {
    const char *name;
    const char *about;
    const char *const *words;     /* the command after the program's name; ends with NULL */
    const struct accept_arg *arg; /* ends with an entry whose name is NULL */
    bool on_device;               /* takes --devices: the device of the check or, if the check has
                                   * none, the device of the spec */
    bool on_gpus;                 /* takes --devices: all GPUs, in one process */
    bool ranks;                   /* if "ranks" is above 1, 'ampscale launch' starts the command */
    bool folder;                  /* takes --out; the results are read from that folder */
    const char *work;             /* takes --out for the folder "work" of the repeat. The command
                                   * replaces this record in it after each part, and keeps the logs
                                   * of its own commands there. If the command prints no output, the
                                   * record is read in its place. NULL: no such folder */
    bool resumes;                 /* with --resume the command keeps the results of that record */
    const char *budget;           /* flag that gives the command a time limit in seconds; at the
                                   * limit the command prints its results so far; NULL: no such
                                   * flag */
    const struct accept_reading *reading;
};

extern const struct accept_kind accept_kinds[]; /* ends with an entry whose name is NULL */

/* The kind of that name; NULL: there is none. */
const struct accept_kind *accept_kind_find(const char *name);

/* Checks arguments; `args` is an object or NULL. STATUS_USAGE if the kind does not allow them. */
MUST_CHECK enum status accept_args_check(const struct accept_kind *kind, const json_t *args,
                                         const char *where);
