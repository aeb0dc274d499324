/* Tests the secret of a job: its sources, and the proofs computed with it. */
#include "comm/control.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text[] = "a secret of this test only";

/* Writes these bytes to a file with these permissions, and reads the secret from the file. */
static enum status read_with(const char *bytes, size_t size, mode_t mode, struct secret *s)
{
    char path[] = "/tmp/ampscale-secret-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    enum status st = secret_read(path, s);
    unlink(path);
    return st;
}

static void is_text(const struct secret *s)
{
    assert_int_equal(s->size, strlen(text));
    assert_memory_equal(s->bytes, text, strlen(text));
}

static void test_files(void **state)
{
    static const mode_t open_modes[] = {0640, 0604, 0644, 0660, 0610, 0666};
    struct secret s;
    char line[64], large[SECRET_MAX + 2];
    snprintf(line, sizeof line, "%s\n", text);
    assert_int_equal(read_with(line, strlen(line), 0600, &s), STATUS_OK);
    is_text(&s);
    assert_int_equal(read_with(text, strlen(text), 0400, &s), STATUS_OK);
    is_text(&s);
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(read_with(text, strlen(text), open_modes[i], &s), STATUS_USAGE);
        assert_int_equal(s.size, 0);
        assert_non_null(strstr(status_message(), "other users have access"));
        assert_null(strstr(status_message(), text));
    }
    assert_int_equal(read_with("short", 5, 0600, &s), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "has 5 bytes"));
    assert_int_equal(read_with("", 0, 0600, &s), STATUS_USAGE);
    memset(large, 'x', sizeof large);
    assert_int_equal(read_with(large, sizeof large, 0600, &s), STATUS_USAGE);
    assert_int_equal(secret_read("/nonexistent", &s), STATUS_USAGE);
    assert_int_equal(secret_read("/dev/null", &s), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "not a regular file"));
}

static void test_variable(void **state)
{
    struct secret s;
    unsetenv(SECRET_VARIABLE);
    assert_int_equal(secret_read(NULL, &s), STATUS_OK);
    assert_int_equal(s.size, 0);
    setenv(SECRET_VARIABLE, text, 1);
    assert_int_equal(secret_read(NULL, &s), STATUS_OK);
    is_text(&s);
    setenv(SECRET_VARIABLE, "too short", 1);
    assert_int_equal(secret_read(NULL, &s), STATUS_USAGE);
    assert_null(strstr(status_message(), "too short'"));
}

static void to_hex(const unsigned char digest[DIGEST_BYTES], char out[2 * DIGEST_BYTES + 1])
{
    for (int i = 0; i < DIGEST_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Compares proofs with values that Python's hmac and hashlib computed. */
static void test_proofs(void **state)
{
    static const struct secret s = {16, "0123456789abcdef"};
    unsigned char proof[DIGEST_BYTES], other[DIGEST_BYTES];
    char hex[2 * DIGEST_BYTES + 1];
    secret_proof(&s, "ampscale rank", "data", 4, proof);
    to_hex(proof, hex);
    assert_string_equal(hex, "3344917f00f14c99e8c275656f6e5a648350d27e9db5f023e09c11f585dfd523");
    secret_proof(&s, "ampscale rank 0", "data", 4, other);
    assert_false(digest_equal(proof, other));
    memcpy(other, proof, sizeof other);
    assert_true(digest_equal(proof, other));
    other[DIGEST_BYTES - 1] ^= 1;
    assert_false(digest_equal(proof, other));
    digest_text("runs/a", proof);
    to_hex(proof, hex);
    assert_string_equal(hex, "7c3ea94701224bf102dccf8a52263e70caa85d685236b2d2d645a93652792270");
}

static void test_nonces_differ(void **state)
{
    unsigned char a[NONCE_BYTES], b[NONCE_BYTES];
    assert_int_equal(nonce_make(a), STATUS_OK);
    assert_int_equal(nonce_make(b), STATUS_OK);
    assert_false(digest_equal(a, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_variable),
        cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_nonces_differ),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
