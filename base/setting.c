/* Reads the values of settings from text, and writes them to a record. */
#include "base/setting.h"

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/text_new.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool setting_is_end(const struct setting *s)
{
    return !s->flag && !s->value && !s->help && !s->key;
}

bool setting_is_argument(const struct setting *s)
{
    return !s->flag && s->value && s->type != SETTING_CHOICE;
}

void *setting_member(const struct setting *s, void *config)
{
    return (char *)config + s->offset;
}

enum status setting_integer(const char *flag, const char *text, int64_t min, int64_t max,
                            int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || v < min || v > max)
        return status_fail(STATUS_USAGE,
                           "--%s '%s': give a whole number from %" PRId64 " to %" PRId64, flag,
                           text, min, max);
    *out = v;
    return STATUS_OK;
}

enum status setting_real(const char *flag, const char *text, double min, double max, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !isfinite(v) || v < min || v > max)
        return status_fail(STATUS_USAGE, "--%s '%s': give a number from %g to %g", flag, text, min,
                           max);
    *out = v;
    return STATUS_OK;
}

/* Stores a whole number in a member of `size` bytes. */
static void store(void *member, size_t size, int64_t v)
{
    if (size == sizeof v)
        memcpy(member, &v, sizeof v);
    else if (size == sizeof(int))
        memcpy(member, &(int){(int)v}, sizeof(int));
    else
        memcpy(member, &(bool){v != 0}, sizeof(bool));
}

static int64_t load(const void *member, size_t size)
{
    int64_t v = 0;
    int i;
    bool b;
    if (size == sizeof v)
        memcpy(&v, member, sizeof v);
    else if (size == sizeof i)
        v = *(int *)memcpy(&i, member, sizeof i);
    else
        v = *(bool *)memcpy(&b, member, sizeof b);
    return v;
}

/* The length of the first word in `words`. A word ends at '|'; the last word ends at ',' or at the
 * end of the text. */
static size_t word_length(const char *words)
{
    return strcspn(words, "|,");
}

/* The index of `text` among words such as "a|b|c"; -1: `text` is not among them. */
static int place_of(const char *words, const char *text)
{
    size_t n;
    int place = 0;
    for (;; words += n + 1, place++) {
        n = word_length(words);
        if (strlen(text) == n && strncmp(words, text, n) == 0)
            return place;
        if (words[n] != '|')
            return -1;
    }
}

/* Finds the index of `text` among the words of `s->value`. If `text` is not among them, the message
 * lists the words. */
static enum status find_word(const struct setting *s, const char *text, int *place)
{
    char known[128] = "", meant[96];
    struct nearest near = nearest_to(text);
    *place = place_of(s->value, text);
    if (*place >= 0)
        return STATUS_OK;
    for (const char *word = s->value, *end = ""; word; word = *end == '|' ? end + 1 : NULL) {
        end = word + word_length(word);
        text_join(known, sizeof known, *end == '|' ? ", " : " or ", "%.*s", (int)(end - word),
                  word);
        nearest_offer(&near, word, (size_t)(end - word));
    }
    nearest_say(&near, "", meant, sizeof meant);
    return status_fail(STATUS_USAGE, "--%s '%s': give %s%s", s->flag, text, known, meant);
}

static enum status take_list(const struct setting *s, const char *text, void *config)
{
    const char **list = setting_member(s, config);
    int *n = (int *)(void *)((char *)config + s->count);
    if (*n >= (int)s->max)
        return status_fail(STATUS_USAGE, "at most %d values of %s%s are allowed: '%s' is too many",
                           (int)s->max, s->flag ? "--" : "", s->flag ? s->flag : s->value, text);
    list[(*n)++] = text;
    return STATUS_OK;
}

/* Reads each part of a comma-separated list. */
static enum status take_parts(const struct setting *s, const char *list, void *config)
{
    char *copy, *rest, *part;
    enum status st = STATUS_OK;
    int place;
    TRY(text_new(&copy, "%s", list));
    rest = copy;
    while ((part = strsep(&rest, ","))) {
        if (s->type == SETTING_PARTS)
            CHECK(s->take(s, part, config));
        else {
            CHECK(find_word(s, part, &place));
            ((bool *)setting_member(s, config))[place] = true;
        }
    }
done:
    free(copy);
    return st;
}

enum status setting_take(const struct setting *s, const char *text, void *config)
{
    void *member = setting_member(s, config);
    int64_t v;
    int place;
    if (s->given)
        *((bool *)config + s->given) = true;
    switch (s->type) {
    case SETTING_TAKEN:
        return s->take(s, text, config);
    case SETTING_PARTS:
        *(int *)(void *)((char *)config + s->count) = 0;
        return take_parts(s, text, config);
    case SETTING_SET:
        memset(member, 0, s->size);
        return take_parts(s, text, config);
    case SETTING_SWITCH:
        store(member, sizeof(bool), true);
        return STATUS_OK;
    case SETTING_INTEGER:
        v = s->max < 0x1p63 ? (int64_t)s->max : INT64_MAX;
        TRY(setting_integer(s->flag, text, (int64_t)s->min, v, &v));
        store(member, s->size, v);
        return STATUS_OK;
    case SETTING_REAL:
        return setting_real(s->flag, text, s->min, s->max, member);
    case SETTING_CHOICE:
        TRY(find_word(s, text, &place));
        store(member, s->size, place);
        return STATUS_OK;
    case SETTING_LIST:
        return take_list(s, text, config);
    case SETTING_WORD:
        TRY(find_word(s, text, &place));
        break;
    default:
        break;
    }
    memcpy(member, &text, sizeof text);
    return STATUS_OK;
}

enum status settings_default(const struct setting *table, void *config)
{
    for (const struct setting *s = table; !setting_is_end(s); s++) {
        struct setting silent = *s;
        silent.given = 0;
        if (s->fallback)
            TRY(setting_take(&silent, s->fallback, config));
    }
    return STATUS_OK;
}

const char *setting_key(const struct setting *s, char name[64])
{
    if (s->key || !s->flag)
        return s->key ? s->key : "";
    snprintf(name, 64, "%s", s->flag);
    for (char *c = name; *c; c++)
        *c = (char)(*c == '-' ? '_' : *c);
    return name;
}

static json_t *choice_json(const struct setting *s, int64_t place)
{
    const char *word = s->value;
    for (; place > 0; place--)
        word += strcspn(word, "|") + 1;
    return json_stringn(word, strcspn(word, "|"));
}

static json_t *value_json(const struct setting *s, const void *member)
{
    double real;
    const char *text;
    switch (s->type) {
    case SETTING_SWITCH:
        return json_boolean(load(member, s->size));
    case SETTING_INTEGER:
        return json_integer(load(member, s->size));
    case SETTING_REAL:
        return json_finite(*(double *)memcpy(&real, member, sizeof real));
    case SETTING_CHOICE:
        return choice_json(s, load(member, s->size));
    case SETTING_JSON:
        return json_incref(*(json_t *const *)member);
    default:
        memcpy(&text, member, sizeof text);
        return text ? json_utf8(text) : json_null();
    }
}

static bool is_recorded(const struct setting *s, const void *member, unsigned without)
{
    static const char zero[sizeof(int64_t)];
    bool may_lack = (s->traits & SETTING_RECORD_SET) || s->type == SETTING_JSON;
    if ((s->traits & without) || s->type <= SETTING_SET || (!s->flag && !s->key))
        return false;
    return !may_lack || memcmp(member, zero, s->size) != 0;
}

void settings_record(const struct setting *table, const void *config, unsigned without,
                     json_t *record)
{
    char name[64];
    for (const struct setting *s = table; !setting_is_end(s); s++) {
        const void *member = (const char *)config + s->offset;
        if (is_recorded(s, member, without))
            json_put(record, setting_key(s, name), value_json(s, member));
    }
}
