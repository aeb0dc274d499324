/* Tests random numbers and hashes. Tests that files and folders are intact after a failure, and
 * that the first of several failures is reported. */
#include "base/file.h"
#include "base/rng.h"
#include "base/status.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

/* Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10 rounds). */
static void test_philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t ctr[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t out[4];
        philox4x32(kat[i].ctr, kat[i].key, out);
        assert_memory_equal(out, kat[i].want, sizeof out);
    }
}

static void test_places_are_independent(void **state)
{
    (void)state;
    struct rng a = rng_at(1, RNG_AUGMENT, 2, 3), b = rng_at(1, RNG_AUGMENT, 2, 3);
    struct rng c = rng_at(1, RNG_AUGMENT, 3, 2), d = rng_at(1, RNG_SHUFFLE, 2, 3);
    uint32_t x = rng_u32(&a);
    assert_int_equal(x, rng_u32(&b));
    assert_int_not_equal(x, rng_u32(&c));
    assert_int_not_equal(x, rng_u32(&d));
}

static void test_distributions(void **state)
{
    (void)state;
    enum { N = 200000 };
    struct rng r = rng_at(7, RNG_TEST, 0, 0);
    double mean = 0, square = 0, uniform = 0;
    int count[7] = {0};
    for (int i = 0; i < N; i++) {
        double z = rng_normal(&r);
        mean += z / N;
        square += z * z / N;
        float u = rng_float(&r);
        assert_true(u >= 0 && u < 1);
        uniform += u / N;
        count[rng_below(&r, 7)]++;
    }
    assert_true(fabs(mean) < 0.01 && fabs(square - 1) < 0.02 && fabs(uniform - 0.5) < 0.005);
    for (int i = 0; i < 7; i++)
        assert_true(abs(count[i] - N / 7) < 700);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double uniform_cdf(double x)
{
    return x;
}

static double arcsine_cdf(double x)
{
    return 2 / 3.14159265358979323846 * asin(sqrt(x));
}

static double two_two_cdf(double x)
{
    return x * x * (3 - 2 * x);
}

static double one_three_cdf(double x)
{
    return 1 - pow(1 - x, 3);
}

/* Distributions with a closed form. The Kolmogorov-Smirnov distance times sqrt(N) exceeds 2 in one
 * of 1500 samples. The seed fixes the sample. */
static void test_beta_distribution(void **state)
{
    (void)state;
    enum { N = 20000 };
    static double value[N];
    static const struct {
        double a, b, (*cdf)(double);
    } table[] = {
        {1, 1, uniform_cdf}, {0.5, 0.5, arcsine_cdf}, {2, 2, two_two_cdf}, {1, 3, one_three_cdf}};
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct rng r = rng_at(7, RNG_TEST, t, 1);
        double far = 0;
        for (int i = 0; i < N; i++)
            value[i] = rng_beta(&r, table[t].a, table[t].b);
        qsort(value, N, sizeof *value, compare_doubles);
        for (int i = 0; i < N; i++) {
            double p = table[t].cdf(value[i]);
            far = fmax(far, fmax(fabs(p - (double)i / N), fabs(p - (i + 1.0) / N)));
        }
        if (!(far * sqrt(N) < 2))
            fail_msg("Beta(%g, %g): the distance from the distribution function is %g", table[t].a,
                     table[t].b, far);
    }
}

/* Var(Beta(a, a)) is 1 / (4 (2a + 1)). For the smallest a, nearly all variates are 0 or 1. */
static void test_beta_moments(void **state)
{
    (void)state;
    enum { N = 50000 };
    static const double alpha[] = {1e-4, 0.1, 0.2, 0.4, 1, 8, 1000};
    for (size_t t = 0; t < sizeof alpha / sizeof *alpha; t++) {
        double a = alpha[t], mean = 0, square = 0, want = 0.25 / (2 * a + 1);
        struct rng r = rng_at(7, RNG_TEST, t, 2);
        for (int i = 0; i < N; i++) {
            double x = rng_beta(&r, a, a);
            assert_true(x >= 0 && x <= 1);
            mean += x / N;
            square += (x - 0.5) * (x - 0.5) / N;
        }
        if (!(fabs(mean - 0.5) < 5 * sqrt(want / N) && fabs(square / want - 1) < 0.04))
            fail_msg("Beta(%g, %g): mean %g, variance %g instead of %g", a, a, mean, square, want);
    }
}

static void test_hashes(void **state)
{
    (void)state;
    assert_true(hash_fnv1a64("") == 0xcbf29ce484222325u);
    assert_true(hash_fnv1a64("a") == 0xaf63dc4c8601ec8cu);
    assert_true(hash_splitmix64(0) == 0xe220a8397b1dcdafu);
}

/* The hash depends on every bit, on the length, and on the hash of the preceding memory. */
static void test_hash_of_memory(void **state)
{
    (void)state;
    unsigned char mem[21] = {1, 2, 3};
    uint64_t want = hash_bytes(7, mem, sizeof mem);
    for (size_t bit = 0; bit < 8 * sizeof mem; bit++) {
        mem[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(hash_bytes(7, mem, sizeof mem) != want);
        mem[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(hash_bytes(7, mem, sizeof mem) == want);
    assert_true(hash_bytes(8, mem, sizeof mem) != want);
    assert_true(hash_bytes(7, mem, 16) != hash_bytes(7, mem, 8));
    assert_true(hash_bytes(7, mem, 0) == hash_splitmix64(7));
}

static void test_atomic_file(void **state)
{
    (void)state;
    char dir[] = "/tmp/ampscale-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    assert_int_equal(file_replace(path, "old", 3), STATUS_OK);

    struct atomic_file f;
    assert_int_equal(atomic_file_open(&f, path), STATUS_OK);
    fputs("new", f.stream);
    atomic_file_abandon(&f);
    char *bytes;
    size_t size;
    assert_int_equal(file_read(path, 100, &bytes, &size), STATUS_OK);
    assert_string_equal(bytes, "old");
    free(bytes);
    assert_int_equal(file_read(path, 2, &bytes, &size), STATUS_DATA);
    assert_int_equal(file_read(dir, 100, &bytes, &size), STATUS_DATA);

    snprintf(path, sizeof path, "%s/none/f", dir);
    assert_int_equal(atomic_file_open(&f, path), STATUS_IO);
    snprintf(path, sizeof path, "%s/f", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* no temporary file was left behind */
}

/* The temporary files of a process that has ended are removed. Files with similar names stay. */
static void test_sweep(void **state)
{
    (void)state;
    static const char *const swept[] = {"a.json.tmp.1", "b.tmp.4194304", "c.tmp.0123456789abcdef"};
    static const char *const kept[] = {
        "a.json", "a.tmp", "a.tmp.", "a.tmp.1x", "tmp.1", "a.tmpx.1", "a.tmp.0123456789abcde"};
    char dir[] = "/tmp/ampscale-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof swept / sizeof *swept; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, swept[i]);
        assert_int_equal(file_replace(path, "x", 1), STATUS_OK);
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, kept[i]);
        assert_int_equal(file_replace(path, "x", 1), STATUS_OK);
    }
    atomic_file_sweep(dir);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, kept[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
    atomic_file_sweep(dir); /* a folder that does not exist */
}

/* If a process is killed while it writes a file, a temporary file is left. The next write of the
 * same file removes this temporary file. A temporary file that is being written stays, and so do
 * the temporary files of other files. */
static void test_left_over(void **state)
{
    (void)state;
    static const char *const kept[] = {"f.tmp.2", "f.tmp.x", "f.tmp.1.tmp", "ff.tmp.1", "f.tmp"};
    enum { KEPT = sizeof kept / sizeof *kept };
    char dir[] = "/tmp/ampscale-test-XXXXXX", path[64], left[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < KEPT; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, kept[i]);
        assert_int_equal(file_replace(path, "x", 1), STATUS_OK);
    }
    snprintf(left, sizeof left, "%s/f.tmp.1", dir);
    assert_int_equal(file_replace(left, "half", 4), STATUS_OK);
    snprintf(path, sizeof path, "%s/%s", dir, kept[0]);
    int writer = open(path, O_RDWR);
    assert_int_equal(flock(writer, LOCK_EX), 0);

    struct atomic_file f;
    snprintf(path, sizeof path, "%s/f", dir);
    assert_int_equal(atomic_file_open(&f, path), STATUS_OK);
    assert_false(path_exists(left));
    assert_true(path_exists(f.temp));
    int held = open(f.temp, O_RDWR);
    /* the writer has locked the file, so other processes do not remove it */
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), -1);
    close(held);
    assert_int_equal(atomic_file_commit(&f), STATUS_OK);
    close(writer);
    assert_int_equal(unlink(path), 0);
    for (size_t i = 0; i < KEPT; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, kept[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* A name in a message is escaped for the terminal. */
static void test_hostile_message(void **state)
{
    (void)state;
    assert_int_equal(status_fail(STATUS_DATA, "cannot open '%s'",
                                 "a\033]0;x\007\nb\xe2\x80\xae"
                                 "c"),
                     STATUS_DATA);
    assert_string_equal(status_message(), "cannot open 'a?]0;x??b???c'");
    assert_int_equal(status_context(STATUS_DATA, "'%s'", "\033[2J\xc3\xa4"), STATUS_DATA);
    assert_string_equal(status_message(), "'?[2J\xc3\xa4': cannot open 'a?]0;x??b???c'");
    assert_int_equal(status_fail(STATUS_DATA, "again: %s", status_message()), STATUS_DATA);
    assert_string_equal(status_message(), "again: '?[2J\xc3\xa4': cannot open 'a?]0;x??b???c'");
}

/* A symbolic link at the name of a temporary file is not followed, and two temporary files of one
 * file have different names. */
static void test_links(void **state)
{
    (void)state;
    char dir[] = "/tmp/ampscale-test-XXXXXX", path[64], victim[64], link[64];
    char *bytes;
    size_t size;
    struct atomic_file a, b;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    snprintf(link, sizeof link, "%s/f.tmp.%ld", dir, (long)getpid());
    assert_int_equal(file_replace(victim, "kept", 4), STATUS_OK);
    assert_int_equal(symlink(victim, link), 0);
    assert_int_equal(file_replace(path, "new", 3), STATUS_OK);
    assert_int_equal(file_read(victim, 100, &bytes, &size), STATUS_OK);
    assert_string_equal(bytes, "kept");
    free(bytes);
    assert_int_equal(atomic_file_open(&a, path), STATUS_OK);
    assert_int_equal(atomic_file_open(&b, path), STATUS_OK);
    assert_string_not_equal(a.temp, b.temp);
    atomic_file_abandon(&a);
    atomic_file_abandon(&b);
    assert_int_equal(dir_remove(dir), STATUS_OK);
}

/* Only ENOENT and ENOTDIR mean that the path does not exist. */
static void test_looking(void **state)
{
    (void)state;
    char dir[] = "/tmp/ampscale-test-XXXXXX", path[64], name[400];
    bool exists = false;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(path_look(dir, &exists), STATUS_OK);
    assert_true(exists);
    snprintf(path, sizeof path, "%s/f", dir);
    assert_int_equal(path_look(path, &exists), STATUS_OK);
    assert_true(!exists && !path_exists(path));
    assert_int_equal(file_replace(path, "x", 1), STATUS_OK);
    snprintf(path, sizeof path, "%s/f/g", dir);
    assert_int_equal(path_look(path, &exists), STATUS_OK);
    assert_true(!exists && !path_exists(path));
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0'; /* ENAMETOOLONG */
    assert_int_equal(path_look(name, &exists), STATUS_IO);
    assert_true(!exists && path_exists(name));
    assert_int_equal(dir_remove(dir), STATUS_OK);
}

/* When a temporary folder is made, unlocked temporary folders of the same kind are removed. */
static void test_temporary_dir(void **state)
{
    (void)state;
    char dir[] = "/tmp/ampscale-test-XXXXXX", left[64], kept[64];
    struct temporary_dir one = {{0}}, other = {{0}};
    assert_non_null(mkdtemp(dir));
    snprintf(left, sizeof left, "%s/a-killed/b", dir);
    snprintf(kept, sizeof kept, "%s/a-another-kind", dir);
    assert_int_equal(dir_make(left), STATUS_OK);
    assert_int_equal(dir_make(kept), STATUS_OK);
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    assert_int_equal(temporary_dir_make(&one, "/none", "a"), STATUS_OK);
    assert_false(path_exists(left));
    assert_true(path_exists(kept));
    assert_int_equal(temporary_dir_make(&other, "/none", "a"), STATUS_OK);
    assert_true(path_is_dir(one.path) && path_is_dir(other.path));
    assert_string_not_equal(one.path, other.path);
    assert_int_equal(temporary_dir_remove(&one), STATUS_OK);
    assert_string_equal(one.path, "");
    assert_int_equal(temporary_dir_remove(&one), STATUS_OK);
    assert_true(path_is_dir(other.path));
    assert_int_equal(temporary_dir_remove(&other), STATUS_OK);
    assert_int_equal(setenv("TMPDIR", "", 1), 0);
    assert_int_equal(temporary_dir_make(&one, "/none", "a"), STATUS_IO);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    assert_int_equal(dir_remove(dir), STATUS_OK);
}

/* Removing a folder removes all its contents, but not the target of a symbolic link in it. */
static void test_dir_remove(void **state)
{
    (void)state;
    char dir[] = "/tmp/ampscale-test-XXXXXX", path[64], kept[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(dir_make(path), STATUS_OK);
    snprintf(path, sizeof path, "%s/a/b/file", dir);
    assert_int_equal(file_replace(path, "x", 1), STATUS_OK);
    snprintf(kept, sizeof kept, "%s/kept", dir);
    assert_int_equal(file_replace(kept, "x", 1), STATUS_OK);
    snprintf(path, sizeof path, "%s/a/link", dir);
    assert_int_equal(symlink(kept, path), 0);
    snprintf(path, sizeof path, "%s/a", dir);
    assert_int_equal(dir_remove(path), STATUS_OK);
    assert_true(!path_exists(path) && path_exists(kept));
    assert_int_equal(dir_remove(path), STATUS_OK); /* the folder does not exist any more */
    assert_int_equal(dir_remove(dir), STATUS_OK);
    assert_false(path_exists(dir));
    snprintf(path, sizeof path, "%s", "/proc/self/status");
    assert_int_equal(dir_remove(path), STATUS_IO);
}

static void test_full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip(); /* /dev/full does not exist on this system */
    struct atomic_file f = {.path = "/tmp/ampscale-never", .temp = "/dev/null/x"};
    f.stream = fopen("/dev/full", "wb");
    assert_non_null(f.stream);
    for (int i = 0; i < 10000; i++)
        fputc('x', f.stream);
    assert_int_equal(atomic_file_commit(&f), STATUS_IO);
    assert_non_null(strstr(status_message(), "No space left"));
    assert_int_not_equal(access("/tmp/ampscale-never", F_OK), 0);
}

static void test_first_failure(void **state)
{
    (void)state;
    struct first_failure first = {0};
    assert_int_equal(first_failure_return(&first), STATUS_OK);
    first_failure_keep(&first, STATUS_OK);
    assert_int_equal(first_failure_return(&first), STATUS_OK);
    first_failure_keep(&first, status_fail(STATUS_DATA, "the first"));
    first_failure_keep(&first, status_fail(STATUS_IO, "the second"));
    assert_int_equal(status_fail(STATUS_OOM, "a third"), STATUS_OOM);
    assert_int_equal(first_failure_return(&first), STATUS_DATA);
    assert_string_equal(status_message(), "the first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_places_are_independent),
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_beta_distribution),
        cmocka_unit_test(test_beta_moments),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_hash_of_memory),
        cmocka_unit_test(test_atomic_file),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_hostile_message),
        cmocka_unit_test(test_looking),
        cmocka_unit_test(test_temporary_dir),
        cmocka_unit_test(test_dir_remove),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
