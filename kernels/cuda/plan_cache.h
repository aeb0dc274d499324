/* Facts that timing finds about plans and operations. A file stores the facts, so that the next run
 * makes the same choices without timing.
 *
 * A key names everything that a fact depends on: the GPU's name, the versions of the library and of
 * the program, the operation, its types and shape. The file is text with one fact (struct
 * plan_choice) per line, sorted by key:
 *
 *     ampscale plans 4
 *     plan <engine> <nanoseconds> <knob>=<value>,...|- <key>
 *     none <key>
 *     wrong <key>
 *     time <nanoseconds> <key>
 *     sum <FNV-1a of all lines above, 16 hexadecimal digits>
 *
 * Saving replaces the file by rename, so that readers see either the old or the new contents. The
 * file is not trusted. It is refused if any line deviates from this form, and a well-formed choice
 * is checked when its plan is made (plan_make). */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLAN_KNOBS_MAX = 32 };

struct plan_knob {
    int64_t type; /* cudnnBackendKnobType_t */
    int64_t value;
};

enum plan_fact {
    PLAN_CHOSEN,  /* a problem's plan; all members of struct plan_choice are set */
    PLAN_LACKING, /* the library has no plan for the problem; all other members are 0 */
    PLAN_TIMED,   /* an operation's time: `nanoseconds` is above 0, the other members are 0 */
    PLAN_WRONG,   /* the problem's plan computes wrong values; all other members are 0 */
};

/* A fact about an operation: its fastest plan (an engine of the library and the settings of its
 * knobs), the fact that it has no plan or a wrong one, or the time that it takes. */
struct plan_choice {
    enum plan_fact fact;
    int64_t engine;      /* index among the library's engines for the graph's pattern */
    int64_t nanoseconds; /* duration of one execution, when it was timed */
    int n_knobs;
    struct plan_knob knob[PLAN_KNOBS_MAX];
};

/* Whether both are the same plan; times are not compared. */
static inline bool plan_choice_same(const struct plan_choice *a, const struct plan_choice *b)
{
    bool same = a->fact == b->fact && a->engine == b->engine && a->n_knobs == b->n_knobs;
    for (int i = 0; same && i < a->n_knobs; i++)
        same = a->knob[i].type == b->knob[i].type && a->knob[i].value == b->knob[i].value;
    return same;
}

/* Keys are 1 to PLAN_KEY_MAX - 1 characters of printable ASCII, without a space at either end. */
enum { PLAN_KEY_MAX = 320, PLAN_CACHE_MAX = 65536 };

/* What the key of an engine that cannot be used has before the engine's number. */
#define PLAN_ENGINE_WORDS " without engine "

struct plan_cache;

MUST_CHECK enum status plan_cache_open(struct plan_cache **cache);
void plan_cache_close(struct plan_cache *cache); /* NULL is fine */

/* Adds the facts of a file, which replace facts of the same keys. Returns STATUS_OK if the file
 * does not exist. If the file is damaged, returns STATUS_DATA and leaves the cache unchanged; the
 * caller may continue, and overwrite the file. */
MUST_CHECK enum status plan_cache_load(struct plan_cache *cache, const char *path);

MUST_CHECK enum status plan_cache_save(const struct plan_cache *cache, const char *path);

/* Adds the facts of `from` whose keys `cache` does not have. */
MUST_CHECK enum status plan_cache_merge(struct plan_cache *cache, const struct plan_cache *from);

/* Returns the fact of a key, which is valid until the next load or put; NULL if the key is
 * unknown. */
const struct plan_choice *plan_cache_find(const struct plan_cache *cache, const char *key);

/* Adds a fact, or replaces the fact of the same key. STATUS_INVALID if the form of the file does
 * not allow the key or the choice, or if the cache is full. */
MUST_CHECK enum status plan_cache_put(struct plan_cache *cache, const char *key,
                                      const struct plan_choice *choice);
