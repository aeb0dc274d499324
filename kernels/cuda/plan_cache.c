/* Stores facts about plans in memory, and reads and writes the file of such facts. */
#include "kernels/cuda/plan_cache.h"

#include "base/array.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/text_new.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "ampscale plans 4\n"

enum { FILE_MAX = 64 << 20, SUM_LINE = 4 + 16 + 1 }; /* "sum ", digits, newline */

struct entry {
    char key[PLAN_KEY_MAX];
    struct plan_choice choice;
};

struct plan_cache {
    size_t n;
    struct entry *entry; /* in the order of their keys */
};

enum status plan_cache_open(struct plan_cache **cache)
{
    return array_new(cache, 1);
}

void plan_cache_close(struct plan_cache *cache)
{
    if (!cache)
        return;
    free(cache->entry);
    free(cache);
}

/* The index of a key, or the index at which it would be inserted. */
static size_t place(const struct plan_cache *cache, const char *key)
{
    size_t low = 0, high = cache->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(cache->entry[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool holds(const struct plan_cache *cache, size_t at, const char *key)
{
    return at < cache->n && strcmp(cache->entry[at].key, key) == 0;
}

const struct plan_choice *plan_cache_find(const struct plan_cache *cache, const char *key)
{
    size_t at = place(cache, key);
    return holds(cache, at, key) ? &cache->entry[at].choice : NULL;
}

static bool key_valid(const char *key)
{
    size_t n = strnlen(key, PLAN_KEY_MAX);
    if (n == 0 || n == PLAN_KEY_MAX || key[0] == ' ' || key[n - 1] == ' ')
        return false;
    for (size_t i = 0; i < n; i++)
        if (key[i] < ' ' || key[i] > '~')
            return false;
    return true;
}

/* Checks a plan's choice. A large knob type is invalid, because cuDNN's knob types are small
 * numbers of an enum. */
static bool plan_valid(const struct plan_choice *choice)
{
    bool valid = choice->nanoseconds >= 0 && choice->engine >= 0 && choice->engine <= INT32_MAX &&
                 choice->n_knobs >= 0 && choice->n_knobs <= PLAN_KNOBS_MAX;
    for (int i = 0; valid && i < choice->n_knobs; i++)
        valid = choice->knob[i].type >= 0 && choice->knob[i].type <= INT16_MAX;
    return valid;
}

static bool choice_valid(const struct plan_choice *choice)
{
    bool no_plan = choice->engine == 0 && choice->n_knobs == 0;
    switch (choice->fact) {
    case PLAN_CHOSEN:
        return plan_valid(choice);
    case PLAN_LACKING:
    case PLAN_WRONG:
        return no_plan && choice->nanoseconds == 0;
    case PLAN_TIMED:
        return no_plan && choice->nanoseconds > 0;
    }
    return false;
}

enum status plan_cache_put(struct plan_cache *cache, const char *key,
                           const struct plan_choice *choice)
{
    if (!key_valid(key) || !choice_valid(choice))
        return status_fail(STATUS_INVALID, "cache of plans: the key or the choice is invalid");
    size_t at = place(cache, key);
    if (!holds(cache, at, key)) {
        if (cache->n == PLAN_CACHE_MAX)
            return status_fail(STATUS_INVALID, "the cache of plans is full: it has %d plans",
                               PLAN_CACHE_MAX);
        TRY(array_reserve(&cache->entry, cache->n));
        memmove(&cache->entry[at + 1], &cache->entry[at], (cache->n - at) * sizeof *cache->entry);
        cache->n++;
        snprintf(cache->entry[at].key, sizeof cache->entry[at].key, "%s", key);
    }
    cache->entry[at].choice = *choice;
    return STATUS_OK;
}

enum status plan_cache_merge(struct plan_cache *cache, const struct plan_cache *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (!plan_cache_find(cache, from->entry[i].key))
            TRY(plan_cache_put(cache, from->entry[i].key, &from->entry[i].choice));
    return STATUS_OK;
}

/* ---- writing ---- */

static void write_entry(FILE *out, const struct entry *e)
{
    if (e->choice.fact == PLAN_LACKING || e->choice.fact == PLAN_WRONG) {
        fprintf(out, "%s %s\n", e->choice.fact == PLAN_WRONG ? "wrong" : "none", e->key);
        return;
    }
    if (e->choice.fact == PLAN_TIMED) {
        fprintf(out, "time %" PRId64 " %s\n", e->choice.nanoseconds, e->key);
        return;
    }
    fprintf(out, "plan %" PRId64 " %" PRId64 " ", e->choice.engine, e->choice.nanoseconds);
    for (int i = 0; i < e->choice.n_knobs; i++)
        fprintf(out, "%s%" PRId64 "=%" PRId64, i ? "," : "", e->choice.knob[i].type,
                e->choice.knob[i].value);
    fprintf(out, "%s %s\n", e->choice.n_knobs ? "" : "-", e->key);
}

enum status plan_cache_save(const struct plan_cache *cache, const char *path)
{
    struct text_stream s;
    TRY(text_stream_open(&s));
    fputs(FIRST_LINE, s.out);
    for (size_t i = 0; i < cache->n; i++)
        write_entry(s.out, &cache->entry[i]);
    fflush(s.out);
    fprintf(s.out, "sum %016" PRIx64 "\n", s.text ? hash_fnv1a64(s.text) : 0);
    TRY(text_stream_close(&s));
    enum status st = file_replace(path, s.text, s.size);
    free(s.text);
    return st;
}

/* ---- reading ---- */

static enum status plan_cache_damaged(const char *path, const char *what)
{
    return status_fail(
        STATUS_DATA,
        "'%s' is not a file of plans: %s; remove it, and the next run times the plans again", path,
        what);
}

/* Reads a decimal number at *p, without leading spaces or plus sign, and moves *p to its end. */
static bool take_number(char **p, int64_t *value)
{
    if (!isdigit((unsigned char)**p) && **p != '-')
        return false;
    errno = 0;
    char *end;
    long long v = strtoll(*p, &end, 10);
    bool taken = end != *p && errno == 0;
    *p = end;
    *value = v;
    return taken;
}

static bool take_char(char **p, char c)
{
    if (**p != c)
        return false;
    ++*p;
    return true;
}

static bool take_word(char **p, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*p, word, n) != 0)
        return false;
    *p += n;
    return true;
}

static bool take_knobs(char **p, struct plan_choice *choice)
{
    if (take_char(p, '-'))
        return true;
    do {
        if (choice->n_knobs == PLAN_KNOBS_MAX)
            return false;
        struct plan_knob *knob = &choice->knob[choice->n_knobs++];
        if (!take_number(p, &knob->type) || !take_char(p, '=') || !take_number(p, &knob->value))
            return false;
    } while (take_char(p, ','));
    return true;
}

/* Reads the part of a line before its key. */
static bool take_choice(char **p, struct plan_choice *choice)
{
    if (take_word(p, "none ")) {
        choice->fact = PLAN_LACKING;
        return true;
    }
    if (take_word(p, "wrong ")) {
        choice->fact = PLAN_WRONG;
        return true;
    }
    if (take_word(p, "time ")) {
        choice->fact = PLAN_TIMED;
        return take_number(p, &choice->nanoseconds) && take_char(p, ' ');
    }
    return take_word(p, "plan ") && take_number(p, &choice->engine) && take_char(p, ' ') &&
           take_number(p, &choice->nanoseconds) && take_char(p, ' ') && take_knobs(p, choice) &&
           take_char(p, ' ');
}

/* Reads the lines between the first and the last, and replaces each line's newline by a NUL. */
static enum status read_lines(struct plan_cache *cache, char *line, const char *end,
                              const char *path)
{
    while (line < end) {
        char *p = line;
        line = strchr(line, '\n') + 1; /* the text before `end` ends with a newline */
        line[-1] = '\0';
        struct plan_choice choice = {0};
        if (!take_choice(&p, &choice) || !key_valid(p) || !choice_valid(&choice))
            return plan_cache_damaged(
                path, "a line is not a valid 'plan', 'none', 'wrong' or 'time' line");
        TRY(plan_cache_put(cache, p, &choice));
    }
    return STATUS_OK;
}

/* Removes the last line and compares it with the checksum of the rest. */
static enum status check_sum(char *text, size_t *size, const char *path)
{
    if (strlen(text) != *size || *size < strlen(FIRST_LINE) + SUM_LINE ||
        strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0)
        return plan_cache_damaged(path, "its first line is wrong");
    char written[SUM_LINE + 1], expected[SUM_LINE + 1];
    *size -= SUM_LINE;
    snprintf(written, sizeof written, "%s", text + *size);
    text[*size] = '\0';
    snprintf(expected, sizeof expected, "sum %016" PRIx64 "\n", hash_fnv1a64(text));
    if (text[*size - 1] != '\n' || strcmp(written, expected) != 0)
        return plan_cache_damaged(path, "its checksum is wrong");
    return STATUS_OK;
}

enum status plan_cache_load(struct plan_cache *cache, const char *path)
{
    enum status st;
    bool exists;
    TRY(path_look(path, &exists));
    if (!exists)
        return STATUS_OK;
    char *text = NULL;
    size_t size;
    struct plan_cache *read = NULL;
    CHECK(file_read(path, FILE_MAX, &text, &size));
    CHECK(check_sum(text, &size, path));
    CHECK(plan_cache_open(&read));
    CHECK(read_lines(read, text + strlen(FIRST_LINE), text + size, path));
    for (size_t i = 0; i < read->n; i++)
        CHECK(plan_cache_put(cache, read->entry[i].key, &read->entry[i].choice));
done:
    plan_cache_close(read);
    free(text);
    return st;
}
