/* Kinds of checks: which command of this program measures, and how its output is read.
 *
 * A new kind is an entry of the table in kind.c, and a reader in read.c where its output is of a
 * form of its own. */
#ifndef ACCEPT_KIND_H
#define ACCEPT_KIND_H

#include "accept/result.h"
#include "base/words.h"

enum accept_arg_type {
    ACCEPT_ARG_COUNT,  /* a whole number */
    ACCEPT_ARG_WORD,   /* letters, digits, '-', '_' and '.', no dash at first */
    ACCEPT_ARG_LIST,   /* words with ',' between them, which may have a ':' each: "amp:256,bf16" */
    ACCEPT_ARG_OUTPUT, /* another check's name, whose output's file is passed where there is one */
    ACCEPT_ARG_PEER, /* true or false: the peer that the command line of accept names, or nothing */
    ACCEPT_ARG_SWITCH, /* true or false: the flag alone, or nothing */
};

/* One of a kind's args, which follows `flag`. */
struct accept_arg {
    const char *name;
    enum accept_arg_type type;
    const char *flag;      /* NULL: none, the word stands alone */
    const char *otherwise; /* what is passed where the check does not say; NULL: nothing */
    int64_t min, max;      /* of a number */
};

/* Adds what one repeat measured. `output` is the JSON object that the command printed, NULL where
 * the kind leaves a folder; `dir` is the repeat's own. STATUS_DATA for what cannot be read. */
typedef enum status accept_reader(const struct accept_spec *spec, const struct accept_check *check,
                                  const json_t *output, const char *dir, struct accept_result *r);

struct accept_kind {
    const char *name;
    const char *about;
    const char *const *words;     /* of the command, behind the program's name; ends with NULL */
    const struct accept_arg *arg; /* ends with a name of NULL */
    bool on_device;               /* takes --devices: the check's, or the spec's */
    bool on_gpus;                 /* takes --devices: all GPUs in one process */
    bool ranks;                   /* "ranks" of it above 1 are started with 'ampscale launch' */
    bool folder;                  /* takes --out, and is read from there */
    const char *budget;           /* flag for the seconds within which it prints what it has; NULL:
                                   * none */
    accept_reader *read;
};

extern const struct accept_kind accept_kinds[]; /* ends with a name of NULL */

/* NULL: there is none of that name. */
const struct accept_kind *accept_kind_find(const char *name);

/* STATUS_USAGE unless args, an object or NULL, are such as the kind has. */
MUST_CHECK enum status accept_args_check(const struct accept_kind *kind, const json_t *args,
                                         const char *where);

/* Appends the command of one repeat, whose own folder is `dir`, <node>/checks/<check>/r<k>, and
 * which is ended after `room_s` seconds. */
MUST_CHECK enum status accept_command(const struct accept_spec *spec,
                                      const struct accept_check *check, const char *program,
                                      const char *dir, int64_t room_s, struct words *w);
#endif
