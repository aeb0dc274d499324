/* Tests safetensors files: written tensors are read back, damaged files are refused, and Python's
 * library agrees. */
#include "base/file.h"
#include "base/rng.h"
#include "model/safetensors.h"
#include "tests/model/peer.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/ampscale-safetensors-XXXXXX";

/* The tests run in a temporary folder. */
static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[sizeof folder + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void put_file(const char *path, const void *bytes, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

/* Writes a file with this header and `data_bytes` zeros. Returns the file's size. */
static size_t put_parts(const char *path, const char *header, size_t data_bytes)
{
    static unsigned char bytes[16384];
    size_t length = strlen(header);
    assert_in_range(length + data_bytes, 0, sizeof bytes - 8);
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    put_file(path, bytes, 8 + length + data_bytes);
    return 8 + length + data_bytes;
}

/* Tensors that safetensors_peer.py also writes and checks. */
static const float weight[6] = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f};
static const uint16_t half[3] = {0x3800, 0xc000, 0x7bff};
static const int64_t count = -9;
static const uint8_t small[3] = {1, 2, 250};
static const struct safetensors_entry entries[] = {
    {.name = "bytes", .dtype = SAFETENSORS_U8, .ndim = 1, .dim = {3}, .data = small},
    {.name = "half", .dtype = SAFETENSORS_F16, .ndim = 1, .dim = {3}, .data = half},
    {.name = "fc.weight", .dtype = SAFETENSORS_F32, .ndim = 2, .dim = {2, 3}, .data = weight},
    {.name = "count", .dtype = SAFETENSORS_I64, .ndim = 0, .data = &count},
    {.name = "none", .dtype = SAFETENSORS_F64, .ndim = 2, .dim = {0, 4}, .data = NULL},
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };
static const struct safetensors_pair pairs[] = {{"epoch", "7"}, {"note", "grüße"}};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static enum status write_file(const char *path, const struct safetensors_entry *entry,
                              size_t n_entries, const struct safetensors_pair *pair, size_t n_pairs)
{
    return safetensors_write(
        path, &(struct safetensors_contents){
                  .entry = entry, .n_entries = n_entries, .pair = pair, .n_pairs = n_pairs});
}

static void write_sample(const char *path)
{
    enum status st = write_file(path, entries, N_ENTRIES, pairs, N_PAIRS);
    if (st != STATUS_OK)
        fail_msg("%s", status_message());
}

static void assert_holds_sample(const struct safetensors *f)
{
    assert_int_equal(safetensors_count(f), N_ENTRIES);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct safetensors_entry *want = &entries[i];
        const struct safetensors_entry *have = safetensors_find(f, want->name);
        assert_non_null(have);
        assert_string_equal(have->name, want->name);
        assert_int_equal(have->dtype, want->dtype);
        assert_int_equal(have->ndim, want->ndim);
        assert_memory_equal(have->dim, want->dim, sizeof have->dim);
        size_t bytes = safetensors_dtype_size(want->dtype);
        for (int k = 0; k < want->ndim; k++)
            bytes *= (size_t)want->dim[k];
        assert_int_equal(have->bytes, bytes);
        if (bytes > 0)
            assert_memory_equal(have->data, want->data, bytes);
        assert_int_equal((uintptr_t)have->data % safetensors_dtype_size(have->dtype), 0);
    }
    assert_null(safetensors_find(f, "fc"));
    assert_string_equal(safetensors_metadata(f, "epoch"), "7");
    assert_string_equal(safetensors_metadata(f, "note"), "grüße");
    assert_null(safetensors_metadata(f, "fc.weight"));
}

static void test_round_trip(void **state)
{
    (void)state;
    write_sample("a.safetensors");
    struct safetensors *f;
    assert_int_equal(safetensors_open("a.safetensors", &f), STATUS_OK);
    assert_holds_sample(f);
    assert_true(safetensors_checked(f));
    static const char *const order[] = {"count", "none", "fc.weight", "half", "bytes"};
    for (size_t i = 0; i < N_ENTRIES; i++)
        assert_string_equal(safetensors_at(f, i)->name, order[i]);
    safetensors_close(f);
    safetensors_close(NULL);
}

static void test_empty(void **state)
{
    (void)state;
    struct safetensors *f;
    assert_int_equal(write_file("empty", NULL, 0, NULL, 0), STATUS_OK);
    assert_int_equal(safetensors_open("empty", &f), STATUS_OK);
    assert_int_equal(safetensors_count(f), 0);
    assert_null(safetensors_metadata(f, "epoch"));
    safetensors_close(f);
}

static void test_bytes_are_a_function_of_the_arguments(void **state)
{
    (void)state;
    char *a, *b;
    size_t a_size, b_size;
    write_sample("a.safetensors");
    write_sample("b.safetensors");
    assert_int_equal(file_read("a.safetensors", SIZE_MAX, &a, &a_size), STATUS_OK);
    assert_int_equal(file_read("b.safetensors", SIZE_MAX, &b, &b_size), STATUS_OK);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    assert_int_equal((uint8_t)a[0] % 8, 0); /* the data start at a multiple of 8 */
    free(a);
    free(b);
}

static enum status get_entry(void *context, size_t i, void *out)
{
    if (i == *(const size_t *)context)
        return status_fail(STATUS_DIVERGED, "'%s' is not finite", entries[i].name);
    size_t bytes = safetensors_dtype_size(entries[i].dtype);
    for (int d = 0; d < entries[i].ndim; d++)
        bytes *= (size_t)entries[i].dim[d];
    memcpy(out, entries[i].data, bytes);
    return STATUS_OK;
}

/* A file has the same bytes whether the entries point to their data or `get` copies the data. If
 * `get` fails, no file is left. */
static void test_get(void **state)
{
    (void)state;
    struct safetensors_entry bare[N_ENTRIES];
    size_t fails = N_ENTRIES, length[2];
    char *text[2];
    const struct safetensors_contents c = {.entry = bare,
                                           .n_entries = N_ENTRIES,
                                           .pair = pairs,
                                           .n_pairs = N_PAIRS,
                                           .get = get_entry,
                                           .context = &fails};
    memcpy(bare, entries, sizeof bare);
    for (size_t i = 0; i < N_ENTRIES; i += 2)
        bare[i].data = NULL;
    write_sample("whole");
    assert_int_equal(safetensors_write("got", &c), STATUS_OK);
    assert_int_equal(file_read("whole", 1 << 20, &text[0], &length[0]), STATUS_OK);
    assert_int_equal(file_read("got", 1 << 20, &text[1], &length[1]), STATUS_OK);
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(text[0], text[1], length[0]);
    free(text[0]);
    free(text[1]);
    fails = 2;
    assert_int_equal(safetensors_write("lost", &c), STATUS_DIVERGED);
    assert_string_equal(status_message(), "'fc.weight' is not finite");
    assert_false(path_exists("lost"));
}

static void test_writer_refuses(void **state)
{
    (void)state;
    struct safetensors_entry two[2] = {entries[0], entries[0]};
    assert_int_equal(write_file("no", two, 2, NULL, 0), STATUS_INVALID);
    two[1].name = "__metadata__";
    assert_int_equal(write_file("no", two, 2, NULL, 0), STATUS_INVALID);
    two[1].name = "\xff";
    assert_int_equal(write_file("no", two, 2, NULL, 0), STATUS_INVALID);
    two[1].name = "big";
    two[1].ndim = 3;
    two[1].dim[0] = two[1].dim[1] = two[1].dim[2] = INT64_C(1) << 40;
    assert_int_equal(write_file("no", two, 2, NULL, 0), STATUS_INVALID);
    const struct safetensors_pair same[2] = {{"k", "1"}, {"k", "2"}}, taken = {"file_crc32", "0"};
    assert_int_equal(write_file("no", entries, 1, same, 2), STATUS_INVALID);
    assert_int_equal(write_file("no", entries, 1, &taken, 1), STATUS_INVALID);
    assert_false(path_exists("no"));
    assert_int_equal(write_file("absent/no", entries, 1, NULL, 0), STATUS_IO);
    assert_non_null(strstr(status_message(), "'absent/no'"));
}

static void assert_refused(const char *path, enum status want, const char *words)
{
    struct safetensors *f = (void *)1;
    enum status st = safetensors_open(path, &f);
    const char *says = status_message();
    if (st != want || !strstr(says, words) || !strstr(says, path))
        fail_msg("'%s' (%s) does not say '%s'", says, status_str(st), words);
    assert_null(f);
    for (const char *p = says; *p; p++)
        assert_in_range((unsigned char)*p, ' ', '~');
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

static void test_damaged_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *says;
    } cases[] = {
        {"", 0, "not JSON"},
        {"nonsense", 0, "not JSON"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":" T("U8", "1", "0,1"), 1, "not JSON"},
        {"{\"a\":" T("U8", "1", "0,1") "}}", 1, "not JSON"},
        {"{\"a\":" T("U8", "1", "0,1") ",\"a\":" T("U8", "1", "1,2") "}", 2, "duplicate"},
        {"{\"\xff\":" T("U8", "1", "0,1") "}", 1, "not JSON"},
        {"{\"a\\u0000b\":" T("U8", "1", "0,1") "}", 1, "not JSON"},
        {"{\"a\":7}", 0, "'a' has no type"},
        {"{\"a\":{}}", 0, "'a' has no type"},
        {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "'a' has no type"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "'a' has no shape"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "'a' has no shape"},
        {"{\"a\":" T("U8", "-1", "0,1") "}", 1, "impossible shape"},
        {"{\"a\":" T("U8", "1.0", "0,1") "}", 1, "impossible shape"},
        {"{\"a\":" T("U8", "\"1\"", "0,1") "}", 1, "impossible shape"},
        {"{\"a\":" T("F32", "4294967296,4294967296", "0,0") "}", 0, "impossible shape"},
        {"{\"a\":" T("F32", "4611686018427387904", "0,0") "}", 0, "impossible shape"},
        {"{\"a\":" T("U8", "99999999999999999999", "0,1") "}", 1, "not JSON"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "'a' has no data offsets"},
        {"{\"a\":" T("U8", "1", "0") "}", 1, "'a' has no data offsets"},
        {"{\"a\":" T("U8", "1", "0,1,2") "}", 1, "'a' has no data offsets"},
        {"{\"a\":" T("U8", "1", "0,1.5") "}", 1, "'a' has no data offsets"},
        {"{\"a\":" T("U8", "1", "-1,0") "}", 1, "impossible data offsets"},
        {"{\"a\":" T("U8", "1", "1,0") "}", 1, "impossible data offsets"},
        {"{\"a\":" T("F32", "2", "0,4") "}", 4, "4 bytes, but its shape needs 8"},
        {"{\"a\":" T("F32", "2", "0,8") "}", 7, "'a' ends past the end of the file"},
        {"{\"a\":" T("U8", "1", "0,1") ",\"b\":" T("U8", "2", "0,2") "}", 2, "'b' overlaps"},
        {"{\"a\":" T("U8", "1", "0,1") ",\"b\":" T("U8", "1", "2,3") "}", 3, "'b' leaves a gap"},
        {"{\"a\":" T("U8", "1", "1,2") "}", 2, "'a' leaves a gap"},
        {"{\"a\":" T("U8", "1", "0,1") "}", 3, "2 bytes follow"},
        {"{\"__metadata__\":7}", 0, "metadata are not"},
        {"{\"__metadata__\":{\"k\":7}}", 0, "metadata 'k' is not a string"},
        {"{\"__metadata__\":{\"file_crc32\":\"12345678\"}}", 0, "checksum"},
        {"{\"__metadata__\":{\"file_crc32\":\"1\"}}", 0, "checksum"},
        {"{\"__metadata__\":{\"file_crc32\": \"12345678\"}}", 0, "checksum"},
        {"{\"a\\nb\\u001b[31m\\u00e9\":7}", 0, "'a?b?[31m?\?' has no type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_parts("bad", cases[i].header, cases[i].data_bytes);
        assert_refused("bad", STATUS_DATA, cases[i].says);
    }
    put_parts("new", "{\"a\":" T("F4", "2", "0,1") "}", 1);
    assert_refused("new", STATUS_UNSUPPORTED, "unknown type 'F4'");
    put_parts("new", "{\"a\":" T("U8", "1,1,1,1,1,1,1,1,1", "0,1") "}", 1);
    assert_refused("new", STATUS_UNSUPPORTED, "9 dimensions");
}

/* Reads an undamaged header in the form of the damaged ones above. If this failed, the refusals
 * above would prove nothing. */
static void test_plain_header_is_read(void **state)
{
    (void)state;
    struct safetensors *f;
    put_parts("good",
              "{\"b\":" T("U8", "2", "1,3") ",\"a\":" T("U8", "", "0,1") ",\"z\":" T(
                  "F32", "0", "1,1") ",\"__metadata__\":{\"k\":\"v\"}}  ",
              3);
    assert_int_equal(safetensors_open("good", &f), STATUS_OK);
    assert_false(safetensors_checked(f));
    assert_int_equal(safetensors_count(f), 3);
    assert_string_equal(safetensors_at(f, 0)->name, "a");
    assert_string_equal(safetensors_at(f, 1)->name, "z");
    assert_string_equal(safetensors_at(f, 2)->name, "b");
    assert_string_equal(safetensors_metadata(f, "k"), "v");
    safetensors_close(f);
}

static void test_damaged_files(void **state)
{
    (void)state;
    unsigned char bytes[64] = {0};
    assert_refused("absent", STATUS_DATA, "cannot open");
    assert_refused(".", STATUS_DATA, "not a regular file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_refused("pipe", STATUS_DATA, "not a regular file");
    put_file("bad", bytes, 0);
    assert_refused("bad", STATUS_DATA, "too few");
    put_file("bad", bytes, 7);
    assert_refused("bad", STATUS_DATA, "too few");
    put_file("bad", bytes, 8);
    assert_refused("bad", STATUS_DATA, "not JSON");
    bytes[0] = 57;
    put_file("bad", bytes, 64);
    assert_refused("bad", STATUS_DATA, "header of 57 bytes ends past");
    memset(bytes, 0xff, 8);
    put_file("bad", bytes, 64);
    assert_refused("bad", STATUS_DATA, "more than the format's");
}

static void test_deep_nesting(void **state)
{
    (void)state;
    char header[16001];
    for (size_t opening = 1; opening <= 2; opening++) {
        const char *open = opening == 1 ? "[" : "{\"a\":";
        header[0] = '\0';
        size_t used = 0;
        while (used + strlen(open) < sizeof header)
            used += (size_t)sprintf(header + used, "%s", open);
        put_parts("deep", header, 0);
        assert_refused("deep", STATUS_DATA, "not JSON");
    }
}

/* Reads all data of a file. Sanitizers check the accesses. */
static unsigned use(const struct safetensors *f)
{
    unsigned sum = 0;
    for (size_t i = 0; i < safetensors_count(f); i++) {
        const struct safetensors_entry *e = safetensors_at(f, i);
        assert_in_range(e->ndim, 0, SAFETENSORS_MAX_DIMS);
        for (size_t k = 0; k < e->bytes; k++)
            sum += ((const unsigned char *)e->data)[k];
        sum += (unsigned)strlen(e->name);
    }
    return sum;
}

/* Opens `bytes` as a file. Returns true if the file is refused or has no checksum. */
static bool refused_or_unchecked(const char *bytes, size_t size)
{
    struct safetensors *f;
    put_file("mutant", bytes, size);
    if (safetensors_open("mutant", &f) != STATUS_OK) {
        assert_non_null(strstr(status_message(), "'mutant'"));
        assert_null(f);
        return true;
    }
    use(f);
    bool unchecked = !safetensors_checked(f);
    safetensors_close(f);
    return unchecked;
}

/* The checksum finds each single wrong bit. A wrong bit in the name of the checksum's key removes
 * the checksum, but leaves the tensors intact. */
static void test_each_bit_counts(void **state)
{
    (void)state;
    char *bytes;
    size_t size, unchecked = 0;
    write_sample("a.safetensors");
    assert_int_equal(file_read("a.safetensors", SIZE_MAX, &bytes, &size), STATUS_OK);
    for (size_t i = 0; i < size * 8; i++) {
        bytes[i / 8] ^= (char)(1 << i % 8);
        if (!refused_or_unchecked(bytes, size))
            fail_msg("a change of bit %zu of byte %zu is not found", i % 8, i / 8);
        struct safetensors *f;
        if (safetensors_open("mutant", &f) == STATUS_OK) {
            assert_holds_sample(f);
            unchecked++;
            safetensors_close(f);
        }
        bytes[i / 8] ^= (char)(1 << i % 8);
    }
    assert_in_range(unchecked, 1, 8 * strlen("file_crc32"));
    free(bytes);
}

static void test_each_length_counts(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    write_sample("a.safetensors");
    assert_int_equal(file_read("a.safetensors", SIZE_MAX, &bytes, &size), STATUS_OK);
    for (size_t length = 0; length <= size + 1; length++) {
        struct safetensors *f;
        put_file("short", bytes, length); /* the byte after the end is the NUL of file_read */
        enum status st = safetensors_open("short", &f);
        assert_int_equal(st, length == size ? STATUS_OK : STATUS_DATA);
        safetensors_close(f);
    }
    free(bytes);
}

/* Damages files without a checksum. Reading must stay within the file's bytes. The damage inserts
 * pieces of text that have a meaning for the parser. */
static void test_random_damage(void **state)
{
    (void)state;
    static const char *const piece[] = {"0",       "1",
                                        "9",       "-",
                                        "e9",      ".",
                                        "{",       "}",
                                        "[",       "]",
                                        ",",       ":",
                                        "\"",      "F64",
                                        "\\u0000", " ",
                                        "null",    "[]",
                                        "{}",      "\xc3",
                                        "\\",      "18446744073709551616"};
    enum { N_PIECES = sizeof piece / sizeof *piece, ROUNDS = 4000 };
    size_t opened = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct rng r = rng_at(1, RNG_TEST, round, 0);
        char header[512] = "{\"a\":" T("F32", "2,3", "0,24") ",\"b\":" T(
            "I64", "2", "24,40") ",\"c\":" T("U8", "3", "40,43") "}";
        for (uint32_t edits = 1 + rng_below(&r, 3); edits > 0; edits--) {
            size_t length = strlen(header), at = rng_below(&r, (uint32_t)length);
            const char *with = piece[rng_below(&r, N_PIECES)];
            size_t cut = rng_below(&r, 3), rest = at + cut < length ? at + cut : length;
            char tail[512];
            strcpy(tail, header + rest);
            snprintf(header + at, sizeof header - at, "%s%s", with, tail);
        }
        put_parts("mutant", header, 43);
        struct safetensors *f;
        if (safetensors_open("mutant", &f) == STATUS_OK) {
            use(f);
            opened++;
        }
        safetensors_close(f);
    }
    assert_in_range(opened, 1, ROUNDS / 2);
}

static int run_peer(const char *python, const char *verb, const char *path)
{
    char command[8400];
    snprintf(command, sizeof command,
             "'%s' '" AMPSCALE_SOURCE_DIR "/tests/model/safetensors_peer.py' %s '%s'", python, verb,
             path);
    return system(command);
}

static void test_python_reads_ours(void **state)
{
    (void)state;
    const char *python = peer_python("safetensors, numpy");
    if (!python)
        skip();
    write_sample("ours.safetensors");
    assert_int_equal(run_peer(python, "check", "ours.safetensors"), 0);
}

static void test_we_read_pythons(void **state)
{
    (void)state;
    const char *python = peer_python("safetensors, numpy");
    if (!python)
        skip();
    struct safetensors *f;
    assert_int_equal(run_peer(python, "write", "theirs.safetensors"), 0);
    assert_int_equal(safetensors_open("theirs.safetensors", &f), STATUS_OK);
    assert_holds_sample(f);
    assert_false(safetensors_checked(f));
    safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_bytes_are_a_function_of_the_arguments),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_plain_header_is_read),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_each_bit_counts),
        cmocka_unit_test(test_each_length_counts),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_python_reads_ours),
        cmocka_unit_test(test_we_read_pythons),
    };
    return cmocka_run_group_tests_name("safetensors", tests, enter_folder, leave_folder);
}
