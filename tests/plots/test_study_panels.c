/* Tests which lines of a study's figure share a panel, and the ticks of its axes. */
#include "plots/study_axis.h"
#include "plots/study_panels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Values of each key; "" ends a list. */
struct matrix {
    const char *value[STUDY_BATCH][4];
};

struct fixture {
    struct study_lines lines;
    bool drawn[STUDY_LINES_MAX];
    struct study_panels panels;
};

static const struct matrix quick = {.value = {[STUDY_MODE] = {"dp", "ddp", ""},
                                              [STUDY_PRECISION] = {"fp32", "O1", ""},
                                              [STUDY_ARCH] = {"resnet8", ""},
                                              [STUDY_DATA] = {"synthetic", "jpeg", ""},
                                              [STUDY_SCALING] = {"weak", "strong", ""}}};

/* Makes a line for each combination of values. The value of the last key changes fastest. */
static void fill(struct fixture *f, const struct matrix *m)
{
    int of[STUDY_BATCH] = {0}, k;
    memset(f, 0, sizeof *f);
    do {
        struct study_line *l = &f->lines.line[f->lines.n];
        assert_true(f->lines.n < STUDY_LINES_MAX);
        f->drawn[f->lines.n++] = true;
        for (k = 0; k < STUDY_BATCH; k++)
            strcpy(l->key[k], m->value[k][of[k]]);
        snprintf(l->label, sizeof l->label, "line %d", f->lines.n);
        for (k = STUDY_BATCH - 1; k >= 0 && m->value[k][++of[k]][0] == '\0'; k--)
            of[k] = 0;
    } while (k >= 0);
}

static void publish(struct fixture *f, const char *label)
{
    struct study_line *l = &f->lines.line[f->lines.n];
    f->drawn[f->lines.n++] = true;
    l->is_published = true;
    strcpy(l->label, label);
}

static void choose(struct fixture *f, enum study_key first)
{
    study_panels_choose(&f->lines, f->drawn, first, &f->panels);
}

static void expect_titles(const struct fixture *f, const char *const title[], int n)
{
    assert_int_equal(f->panels.n, n);
    for (int k = 0; k < n; k++)
        assert_string_equal(f->panels.title[k], title[k]);
}

static void expect_legend(const struct fixture *f, const char *const label[], int n)
{
    assert_int_equal(f->panels.n_entries, n);
    for (int k = 0; k < n; k++)
        assert_string_equal(f->panels.label[k], label[k]);
}

/* Checks that each panel has each legend entry once, and that each line is in the panel and the
 * legend entry of its keys' values. */
static void expect_whole(const struct fixture *f)
{
    const struct study_panels *p = &f->panels;
    int count[STUDY_LINES_MAX][STUDY_LINES_MAX] = {{0}};
    for (int i = 0; i < f->lines.n; i++) {
        assert_in_range(p->panel[i], 0, p->n - 1);
        assert_in_range(p->entry[i], 0, p->n_entries - 1);
        count[p->panel[i]][p->entry[i]]++;
    }
    for (int k = 0; k < p->n; k++)
        for (int e = 0; e < p->n_entries; e++)
            assert_int_equal(count[k][e], 1);
}

static void test_four_keys(void **state)
{
    static const char *const titles[] = {"fp32, synthetic", "O1, synthetic", "fp32, jpeg",
                                         "O1, jpeg"};
    static const char *const legend[] = {"dp weak", "dp strong", "ddp weak", "ddp strong"};
    struct fixture f;
    (void)state;
    fill(&f, &quick);
    choose(&f, STUDY_ARCH);
    expect_titles(&f, titles, 4);
    expect_legend(&f, legend, 4);
    expect_whole(&f);
    /* "ddp fp32 jpeg strong" */
    assert_int_equal(f.panels.panel[11], 2);
    assert_int_equal(f.panels.entry[11], 3);
}

/* If a key is given as the first key, each of its values has its own panels, whatever the other
 * keys are. */
static void test_key_that_comes_first(void **state)
{
    static const char *const titles[] = {"synthetic, weak", "jpeg, weak", "synthetic, strong",
                                         "jpeg, strong"};
    static const char *const legend[] = {"dp fp32", "dp O1", "ddp fp32", "ddp O1"};
    struct fixture f;
    (void)state;
    fill(&f, &quick);
    choose(&f, STUDY_SCALING);
    expect_titles(&f, titles, 4);
    expect_legend(&f, legend, 4);
    expect_whole(&f);
}

/* If one key is enough to divide the lines, panels are divided by that key alone. The legend omits
 * keys that do not vary. */
static void test_lines_of_one_scaling(void **state)
{
    static const char *const titles[] = {"synthetic", "jpeg"};
    static const char *const legend[] = {"dp fp32", "dp O1", "ddp fp32", "ddp O1"};
    struct fixture f;
    (void)state;
    fill(&f, &quick);
    for (int i = 1; i < f.lines.n; i += 2)
        f.drawn[i] = false; /* strong */
    choose(&f, STUDY_ARCH);
    expect_titles(&f, titles, 2);
    expect_legend(&f, legend, 4);
    for (int i = 0; i < f.lines.n; i++)
        assert_int_equal(f.panels.panel[i], i % 2 == 1 ? STUDY_NO_PANEL : i / 2 % 2);
}

static void test_few_lines(void **state)
{
    struct fixture f;
    (void)state;
    fill(&f, &quick);
    for (int i = STUDY_PANEL_LINES; i < f.lines.n; i++)
        f.drawn[i] = false;
    choose(&f, STUDY_SCALING);
    assert_int_equal(f.panels.n, 1);
    assert_string_equal(f.panels.title[0], "");
    for (int i = 0; i < f.lines.n; i++) {
        assert_int_equal(f.panels.panel[i], i < STUDY_PANEL_LINES ? 0 : STUDY_NO_PANEL);
        assert_int_equal(f.panels.entry[i], i);
        assert_string_equal(f.panels.label[i], f.lines.line[i].label);
    }
}

static void test_two_values_along_a_row(void **state)
{
    static const char *const titles[] = {"fp32, a", "fp32, b", "amp, a",
                                         "amp, b",  "O2, a",   "O2, b"};
    struct matrix m = quick;
    struct fixture f;
    (void)state;
    m.value[STUDY_PRECISION][1] = "amp";
    m.value[STUDY_PRECISION][2] = "O2";
    m.value[STUDY_PRECISION][3] = "";
    m.value[STUDY_DATA][0] = "a";
    m.value[STUDY_DATA][1] = "b";
    fill(&f, &m);
    choose(&f, STUDY_ARCH);
    expect_titles(&f, titles, 6);
    expect_whole(&f);
}

/* A published line shares a panel only with lines of the same network, precision and data. */
static void test_published(void **state)
{
    struct matrix m = quick;
    struct fixture f;
    (void)state;
    m.value[STUDY_SCALING][1] = "";
    fill(&f, &m);
    publish(&f, "theirs");
    publish(&f, "others");
    for (int i = 8; i < 10; i++) {
        strcpy(f.lines.line[i].key[STUDY_ARCH], "resnet8");
        strcpy(f.lines.line[i].key[STUDY_PRECISION], "O1");
    }
    strcpy(f.lines.line[9].key[STUDY_DATA], "jpeg");
    choose(&f, STUDY_DATA);
    assert_int_equal(f.panels.n, 4); /* divided by data; lines of a panel differ in precision */
    assert_int_equal(f.panels.panel[8], 2);
    assert_int_equal(f.panels.panel[9], 3);
    /* the data of the published line are not known */
    assert_string_equal(f.panels.title[2], "theirs, resnet8 O1");
    for (int i = 0; i < 8; i++)
        assert_in_range(f.panels.panel[i], 0, 1);
    for (int i = 0; i < 8; i++)
        strcpy(f.lines.line[i].key[STUDY_PRECISION], "O1");
    choose(&f, STUDY_DATA);
    assert_int_equal(f.panels.panel[9], 1); /* in the panel of the lines with jpeg */
    assert_int_equal(f.panels.panel[8], 2);
    assert_int_equal(f.panels.n, 3);
    /* Only two lines of the study are drawn now. They share one panel, which has a title because
     * there are other panels. */
    memset(f.drawn, 0, 6 * sizeof *f.drawn);
    choose(&f, STUDY_DATA);
    assert_string_equal(f.panels.title[0], "this study");
    memset(f.drawn, 0, 8 * sizeof *f.drawn); /* draws only the published lines */
    choose(&f, STUDY_ARCH);
    assert_int_equal(f.panels.n, 1);
    assert_string_equal(f.panels.title[0], "");
}

/* Panels with one line each would compare nothing, so they are avoided. If every division has a
 * disadvantage, the best division is used. */
static void test_nothing_to_cut_by(void **state)
{
    struct matrix m = quick;
    struct fixture f;
    (void)state;
    fill(&f, &m);
    for (int i = 0; i < f.lines.n; i++) {
        for (int k = 0; k < STUDY_BATCH; k++)
            strcpy(f.lines.line[i].key[k], "same");
        snprintf(f.lines.line[i].key[STUDY_DATA], STUDY_KEY_MAX, "data %d", i);
    }
    choose(&f, STUDY_ARCH);
    assert_int_equal(f.panels.n, 1);
    for (int i = 0; i < f.lines.n; i++)
        snprintf(f.lines.line[i].key[STUDY_DATA], STUDY_KEY_MAX, "data %d", i % 2);
    choose(&f, STUDY_ARCH);
    assert_int_equal(f.panels.n, 2);
}

static void test_ideals_once(void **state)
{
    struct study_point point[3][2];
    struct fixture f;
    (void)state;
    fill(&f, &quick);
    f.lines.n = 3;
    for (int i = 0; i < 3; i++) {
        f.lines.line[i].point = point[i];
        f.lines.line[i].n = i == 0 ? 1 : 2;
        for (int k = 0; k < 2; k++) {
            point[i][k].devices = k + 1;
            point[i][k].value[QUANTITY_RATE].ideal = 100.0 * (k + 1);
        }
    }
    choose(&f, STUDY_ARCH);
    /* line 0 ends before line 1, so the ideal line of line 1 covers the ideal line of line 0 */
    assert_false(study_panels_ideal(&f.panels, &f.lines, 0, QUANTITY_RATE));
    assert_true(study_panels_ideal(&f.panels, &f.lines, 1, QUANTITY_RATE));
    assert_false(study_panels_ideal(&f.panels, &f.lines, 2, QUANTITY_RATE));
    point[2][1].value[QUANTITY_RATE].ideal = 201;
    assert_true(study_panels_ideal(&f.panels, &f.lines, 2, QUANTITY_RATE));
    point[2][1].value[QUANTITY_RATE].ideal = 200;
    f.panels.panel[2] = 1; /* a line in another panel covers nothing in this panel */
    assert_true(study_panels_ideal(&f.panels, &f.lines, 2, QUANTITY_RATE));
}

static void expect_ticks(double low, double high, bool powers, const double want[], int n)
{
    double tick[AXIS_TICKS_MAX];
    assert_int_equal(axis_log_ticks(low, high, powers, tick), n);
    for (int i = 0; i < n; i++)
        assert_true(fabs(tick[i] - want[i]) <= 1e-12 * want[i]);
}

static void test_ticks(void **state)
{
    (void)state;
    expect_ticks(1300, 5700, false, (const double[]){1500, 2000, 3000, 4000, 5000}, 5);
    expect_ticks(0.09, 1.1, false, (const double[]){0.1, 0.2, 0.5, 1}, 4);
    expect_ticks(1, 9, true, (const double[]){1, 2, 4, 8}, 4);
    expect_ticks(0.7, 2.9, true, (const double[]){0.8, 1, 1.5, 2}, 4);
    expect_ticks(1.1, 1e12, true,
                 (const double[]){10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12},
                 12);
    expect_ticks(1e-300, 1e300, false, NULL, 0);
    for (double low = 0.001; low < 1000; low *= 1.07) {
        double tick[AXIS_TICKS_MAX];
        int n = axis_log_ticks(low, 2 * low, false, tick);
        assert_in_range(n, 3, AXIS_TICKS_MAX);
        assert_true(tick[0] >= low && tick[n - 1] <= 2 * low);
        for (int i = 1; i < n; i++)
            assert_true(tick[i] > tick[i - 1]);
    }
}

/* The axis ends at 100 %, and it also works if all values are equal. */
static void test_percent(void **state)
{
    (void)state;
    const struct axis axis = {.label = "Top-5 (%)", .scale = AXIS_PERCENT};
    char *text = NULL;
    size_t size;
    FILE *vars = open_memstream(&text, &size);
    assert_non_null(vars);
    axis_set(vars, &axis, 0, (struct range){100, 100});
    assert_int_equal(fclose(vars), 0);
    assert_non_null(strstr(text, "y_low1 = 95\n"));
    assert_non_null(strstr(text, "y_ticks1 = '95, 96, 97, 98, 99, 100'\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_keys),
        cmocka_unit_test(test_key_that_comes_first),
        cmocka_unit_test(test_lines_of_one_scaling),
        cmocka_unit_test(test_few_lines),
        cmocka_unit_test(test_two_values_along_a_row),
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_nothing_to_cut_by),
        cmocka_unit_test(test_ideals_once),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
