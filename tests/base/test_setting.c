/* Tables of settings: allowed values, messages for other values, defaults, and records. */
#include "base/setting.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

enum colour { RED, GREEN, BLUE };

struct things {
    int count;
    int64_t large;
    uint64_t seed;
    double share;
    bool loud, named, open;
    enum colour colour;
    const char *file, *word, *untouched;
    const char *dir[2];
    int n_dirs;
    int twice;
    bool size[3];
    int n_parts, part[4];
    json_t *extra;
};

static enum status take_twice(const struct setting *s, const char *text, void *config)
{
    int64_t v;
    TRY(setting_integer(s->flag, text, 0, 10, &v));
    *(int *)setting_member(s, config) = 2 * (int)v;
    return STATUS_OK;
}

static enum status take_part(const struct setting *s, const char *part, void *config)
{
    struct things *t = config;
    int64_t v;
    TRY(setting_integer(s->flag, part, 0, 10, &v));
    t->part[t->n_parts++] = (int)v;
    return STATUS_OK;
}

#define SETTINGS_OF struct things
static const struct setting table[] = {
    {.group = 1, .help = "Things"},
    {"max-count", 'c', "N", "7", "A count", AS_INTEGER(count, 1, 9), .key = "count"},
    {"large", 0, "N", NULL, "A large one", AS_INTEGER(large, -5, 1e15)},
    {"seed", 0, "N", "0", "A seed", AS_INTEGER(seed, 0, 0x1p63)},
    {"share", 0, "X", "0.5", "A share", AS_REAL(share, 0, 1), .traits = SETTING_TRAIT},
    {"is-loud", 0, NULL, NULL, "Loud", AS_SWITCH(loud), GIVEN(named)},
    {"colour", 0, "red|green|blue", "green", "A colour", AS_CHOICE(colour)},
    {"door", 0, "shut|open", NULL, "A door", AS_CHOICE(open), .traits = SETTING_RECORD_SET},
    {"file", 0, "FILE", NULL, "A file", AS_TEXT(file)},
    {"word", 0, "one|two", NULL, "A word", AS_WORD(word), .traits = SETTING_RECORD_SET},
    {"dir", 0, "DIR", NULL, "Folders", AS_LIST(dir, n_dirs), .traits = SETTING_TRAIT},
    {"twice", 0, "N", "3", "Doubled", SETTING_AT(twice), TAKEN_BY(take_twice)},
    {"parts", 0, "N,...", "1,2", "Parts", PARTS_TAKEN_BY(take_part, n_parts)},
    {"size", 0, "small|medium|large,...", NULL, "Sizes", AS_SET(size)},
    {.key = "extra", AS_JSON(extra)},
    {0},
};

static const struct setting *row_of(const char *flag)
{
    const struct setting *s = table;
    while (!s->flag || strcmp(s->flag, flag) != 0)
        s++;
    return s;
}

static void values_reach_their_members(void **state)
{
    static const char *const values[][2] = {{"max-count", "9"},
                                            {"large", "1000000000000000"},
                                            {"seed", "9223372036854775807"},
                                            {"share", "1e-3"},
                                            {"colour", "blue"},
                                            {"door", "open"},
                                            {"file", "a b"},
                                            {"word", "two"},
                                            {"dir", "x"},
                                            {"dir", "y"},
                                            {"twice", "4"},
                                            {"is-loud", NULL}};
    struct things t = {0};
    for (int i = 0; i < COUNT(values); i++) {
        assert_false(t.named);
        assert_int_equal(setting_take(row_of(values[i][0]), values[i][1], &t), STATUS_OK);
    }
    assert_true(t.loud && t.named && t.open && !t.untouched);
    assert_true(t.count == 9 && t.twice == 8 && t.colour == BLUE && t.n_dirs == 2);
    assert_true(t.large == 1000000000000000 && t.seed == INT64_MAX && t.share == 1e-3);
    assert_string_equal(t.file, "a b");
    assert_string_equal(t.word, "two");
    assert_string_equal(t.dir[1], "y");
    assert_int_equal(setting_take(row_of("dir"), "z", &t), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "at most 2 values of --dir"));
}

static void other_values_are_refused(void **state)
{
    static const struct {
        const char *flag, *text, *wanted;
    } cases[] = {
        {"max-count", "", "a whole number from 1 to 9"},
        {"max-count", "0", "a whole number from 1 to 9"},
        {"max-count", "10", "a whole number from 1 to 9"},
        {"max-count", "1x", "a whole number from 1 to 9"},
        {"max-count", "1.5", "a whole number from 1 to 9"},
        {"max-count", "99999999999999999999", "a whole number from 1 to 9"},
        {"share", "1.01", "a number from 0 to 1"},
        {"share", "nan", "a number from 0 to 1"},
        {"colour", "gree", "red, green or blue; did you mean green?"},
        {"door", "red|green", "shut or open"},
        {"word", "three", "one or two"},
        {"size", "", "small, medium or large"},
        {"size", "small,tiny", "small, medium or large"},
        {"parts", "3,x", "a whole number from 0 to 10"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        struct things t = {0};
        char flag[32];
        snprintf(flag, sizeof flag, "--%s '", cases[i].flag);
        assert_int_equal(setting_take(row_of(cases[i].flag), cases[i].text, &t), STATUS_USAGE);
        assert_non_null(strstr(status_message(), flag));
        assert_non_null(strstr(status_message(), cases[i].wanted));
        assert_int_equal(t.count, 0);
    }
}

static void defaults_are_values(void **state)
{
    struct things t = {.large = 4};
    assert_int_equal(settings_default(table, &t), STATUS_OK);
    assert_true(t.count == 7 && t.colour == GREEN && t.twice == 6 && t.share == 0.5);
    assert_true(t.large == 4 && !t.named && !t.file);
    assert_true(t.n_parts == 2 && t.part[0] == 1 && t.part[1] == 2);
}

static void a_list_replaces_the_one_before(void **state)
{
    struct things t = {.n_parts = 2};
    assert_int_equal(setting_take(row_of("parts"), "7", &t), STATUS_OK);
    assert_true(t.n_parts == 1 && t.part[0] == 7);
    assert_int_equal(setting_take(row_of("size"), "large,small", &t), STATUS_OK);
    assert_true(t.size[0] && !t.size[1] && t.size[2]);
    assert_int_equal(setting_take(row_of("size"), "medium", &t), STATUS_OK);
    assert_true(!t.size[0] && t.size[1] && !t.size[2]);
}

static void records_have_rows_in_their_order(void **state)
{
    struct things t = {.count = 3, .colour = BLUE, .n_dirs = 1, .word = "one"};
    json_t *o = json_object();
    t.extra = json_pack("{s:i}", "a", 1);
    settings_record(table, &t, SETTING_TRAIT, o);
    char *text = json_dumps(o, JSON_COMPACT);
    assert_string_equal(text,
                        "{\"count\":3,\"large\":0,\"seed\":0,\"is_loud\":false,"
                        "\"colour\":\"blue\",\"file\":null,\"word\":\"one\",\"extra\":{\"a\":1}}");
    free(text);
    json_decref(t.extra);
    json_decref(o);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_reach_their_members),
        cmocka_unit_test(other_values_are_refused),
        cmocka_unit_test(a_list_replaces_the_one_before),
        cmocka_unit_test(defaults_are_values),
        cmocka_unit_test(records_have_rows_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
