/* Settings as data: a table has a row for each member of a structure that a user can set. The row
 * defines the flag and its other spellings, the check of the value, the default, --help, the
 * manual, and the member of a JSON record.
 *
 * A file with a table defines SETTINGS_OF as the structure, and ends each row with one of the
 * macros AS_... below:
 *     #define SETTINGS_OF struct my_config
 *     static const struct setting my_settings[] = {
 *         {"seed", 0, "N", "0", "Seed of the order", AS_INTEGER(seed, 0, 1000)},
 *         {"json", 0, NULL, NULL, "Print JSON", AS_SWITCH(json)},
 *         {NULL, 0, "DIR", NULL, NULL, AS_TEXT(dir)},
 *         {0},
 *     }; */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_type {
    /* These three are not recorded: */
    SETTING_TAKEN, /* `take` reads the value */
    SETTING_PARTS, /* `take` reads each part of a comma-separated list. The list replaces an earlier
                    * list: the int at `count` is first set to 0 */
    SETTING_SET,   /* bool[], one for each word of `value`: whether the comma-separated list
                    * contains the word */

    SETTING_SWITCH,    /* bool, which the flag sets; the flag takes no value */
    SETTING_INTEGER,   /* int, int64_t or uint64_t from min to max */
    SETTING_REAL,      /* double from min to max */
    SETTING_CHOICE,    /* bool, int or enum: the index of a word in `value`, from 0 */
    SETTING_WORD,      /* const char *: one of the words of `value` */
    SETTING_TEXT,      /* const char *, which is not copied; NULL: not given */
    SETTING_LIST,      /* const char *[max], and an int at `count`; each use of the flag appends its
                        * value */
    SETTING_ARGUMENTS, /* char **, which points into argv, and an int at `count`: all positional
                        * arguments */
    SETTING_JSON,      /* json_t * that appears only in the record and has no flag; NULL: the record
                          omits it */
};

/* Traits of a setting. A table may define further traits, as bits from SETTING_TRAIT up. */
enum {
    SETTING_HIDDEN = 1,     /* neither --help nor the manual shows it */
    SETTING_RECORD_SET = 2, /* the record omits the setting if its value is 0 */
    SETTING_REST = 4, /* for SETTING_ARGUMENTS: takes all words from the first positional argument
                         on, even flags */
    SETTING_TRAIT = 8,
};

enum { SETTING_ALIASES = 3 };

struct setting {
    const char *flag;  /* long flag, without dashes; NULL: a positional argument, or a setting with
                          only a `key` */
    char letter;       /* the short flag; 0: none */
    const char *value; /* the value in --help: a name, such as "FILE", or the words of a choice,
                        * "a|b", or the words of a set, "a|b,..." */
    const char *fallback; /* the flag's default value; NULL: no default, or `help` states it */
    const char *help;     /* a noun phrase; a row that has only `help` is the heading of `group` */
    enum setting_type type;
    size_t offset, size, count, given; /* the member's offset and size. `count` is the offset of the
                                        * member's number of elements, and `given` the offset of a
                                        * bool that is set if the flag is given; 0: none */
    double min, max;
    enum status (*take)(const struct setting *s, const char *text, void *config);
    const char *aliases[SETTING_ALIASES + 1]; /* other spellings of the flag; ends with NULL */
    const char *key; /* name in a record; NULL: the flag, with underscores for dashes */
    int group;       /* number of the setting's group in --help */
    unsigned traits;
};

#define SETTING_AT(member)                                                                         \
    .offset = offsetof(SETTINGS_OF, member), .size = sizeof(((SETTINGS_OF *)0)->member)
#define AS_SWITCH(member) .type = SETTING_SWITCH, SETTING_AT(member)
#define AS_INTEGER(member, least, most)                                                            \
    .type = SETTING_INTEGER, SETTING_AT(member), .min = least, .max = most
#define AS_REAL(member, least, most)                                                               \
    .type = SETTING_REAL, SETTING_AT(member), .min = least, .max = most
#define AS_CHOICE(member) .type = SETTING_CHOICE, SETTING_AT(member)
#define AS_WORD(member)   .type = SETTING_WORD, SETTING_AT(member)
#define AS_TEXT(member)   .type = SETTING_TEXT, SETTING_AT(member)
#define AS_LIST(member, n)                                                                         \
    .type = SETTING_LIST, SETTING_AT(member), .count = offsetof(SETTINGS_OF, n),                   \
    .max = sizeof(((SETTINGS_OF *)0)->member) / sizeof(const char *)
#define AS_ARGUMENTS(member, n)                                                                    \
    .type = SETTING_ARGUMENTS, SETTING_AT(member), .count = offsetof(SETTINGS_OF, n)
#define AS_JSON(member)    .type = SETTING_JSON, SETTING_AT(member)
#define AS_SET(member)     .type = SETTING_SET, SETTING_AT(member)
#define TAKEN_BY(function) .type = SETTING_TAKEN, .take = function
#define PARTS_TAKEN_BY(function, n)                                                                \
    .type = SETTING_PARTS, .take = function, .count = offsetof(SETTINGS_OF, n)
#define GIVEN(member) .given = offsetof(SETTINGS_OF, member)

bool setting_is_end(const struct setting *s);      /* the row {0} */
bool setting_is_argument(const struct setting *s); /* positional */

/* The address of the member that a row sets. */
void *setting_member(const struct setting *s, void *config);

/* Stores the value `text` in the setting's member, and sets `given`. After STATUS_USAGE the message
 * names the flag, the value and the allowed values. */
MUST_CHECK enum status setting_take(const struct setting *s, const char *text, void *config);

/* Gives each member of a table its default. */
MUST_CHECK enum status settings_default(const struct setting *table, void *config);

/* Read `text`, the value of `flag`: setting_integer reads a whole number from min to max, and
 * setting_real reads a number with or without decimals. */
MUST_CHECK enum status setting_integer(const char *flag, const char *text, int64_t min, int64_t max,
                                       int64_t *out);
MUST_CHECK enum status setting_real(const char *flag, const char *text, double min, double max,
                                    double *out);

/* The key of a setting in a record. If the key is derived from the flag, it is written to
 * `name`. */
const char *setting_key(const struct setting *s, char name[64]);

/* Adds to `record`, in the table's order, all recorded settings that have none of the traits in
 * `without`. */
void settings_record(const struct setting *table, const void *config, unsigned without,
                     json_t *record);
