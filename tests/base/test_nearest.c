/* Suggestions for a mistyped word. */
#include "base/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const known[] = {"batch-size", "epochs",  "lr",   "lr-step", "node-rank",
                                    "out",        "workers", "seed", "steps",   "val-batch-size"};
enum { KNOWN = sizeof known / sizeof *known };

static void test_words(void **state)
{
    static const char *const cases[][2] = {
        /* two neighbouring letters are exchanged, which counts as one edit */
        {"--epoch", "; did you mean --epochs?"},
        {"--epochs=9", "; did you mean --epochs?"},
        {"--Batch_Sise=9", "; did you mean --batch-size?"},
        {"--ltr", "; did you mean --lr?"},
        {"--wrokers", "; did you mean --workers?"},
        {"--node_rnak", "; did you mean --node-rank?"},
        {"--lr-stop", "; did you mean --lr-step?"},
        {"--sed", "; did you mean --seed?"},
        {"--tous", ""}, /* "tous" differs from "out" by three edits, which are too many */
        {"--nonesuch", ""},
        {"--", ""},
        {"--a-flag-with-a-name-far-longer-than-any-that-there-is-or-will-be", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[128];
        struct nearest near = nearest_to(cases[i][0]);
        for (int k = 0; k < KNOWN; k++)
            nearest_offer(&near, known[k], strlen(known[k]));
        nearest_say(&near, "--", said, sizeof said);
        assert_string_equal(said, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
