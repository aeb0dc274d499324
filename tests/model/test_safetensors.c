/* Tests safetensors files: written tensors are read back, damaged files are refused, and Python's
 * library agrees. */
#include "model/safetensors.h"
#include "tests/suite.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The tests run in a temporary folder. */
static int enter_folder(void **state)
{
    scratch_set_up(state);
    return chdir(*state);
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
    scratch_write(".", path, bytes, 8 + length + data_bytes);
    return 8 + length + data_bytes;
}

/* The tensors of safetensors_peer.py. */
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
    write_sample("a.safetensors");
    struct safetensors *f;
    assert_int_equal(safetensors_open("a.safetensors", &f), STATUS_OK);
    assert_holds_sample(f);
    assert_true(safetensors_checked(f));
    for (size_t i = 1; i < N_ENTRIES; i++) /* wide elements first, so that all are aligned */
        assert_true(safetensors_dtype_size(safetensors_at(f, i - 1)->dtype) >=
                    safetensors_dtype_size(safetensors_at(f, i)->dtype));
    safetensors_close(f);
    safetensors_close(NULL);
    assert_int_equal(write_file("empty", NULL, 0, NULL, 0), STATUS_OK);
    assert_int_equal(safetensors_open("empty", &f), STATUS_OK);
    assert_int_equal(safetensors_count(f), 0);
    assert_null(safetensors_metadata(f, "epoch"));
    safetensors_close(f);
}

static void test_nowhere_to_write(void **state)
{
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
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *says;
    } cases[] = {
        {"", 0, "not JSON"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":" T("U8", "1", "0,1") "}}", 1, "not JSON"},
        {"{\"a\":" T("U8", "1", "0,1") ",\"a\":" T("U8", "1", "1,2") "}", 2, "duplicate"},
        {"{\"\xff\":" T("U8", "1", "0,1") "}", 1, "not JSON"},
        {"{\"a\\u0000b\":" T("U8", "1", "0,1") "}", 1, "not JSON"},
        {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "'a' has no type"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "'a' has no shape"},
        {"{\"a\":" T("U8", "1.0", "0,1") "}", 1, "impossible shape"},
        {"{\"a\":" T("F32", "4294967296,4294967296", "0,0") "}", 0, "impossible shape"},
        {"{\"a\":" T("U8", "1", "0") "}", 1, "'a' has no data offsets"},
        {"{\"a\":" T("U8", "1", "1,0") "}", 1, "impossible data offsets"},
        {"{\"a\":" T("F32", "2", "0,4") "}", 4, "4 bytes, but its shape needs 8"},
        {"{\"a\":" T("F32", "2", "0,8") "}", 7, "'a' ends past the end of the file"},
        {"{\"a\":" T("U8", "1", "0,1") ",\"b\":" T("U8", "2", "0,2") "}", 2, "'b' overlaps"},
        {"{\"a\":" T("U8", "1", "0,1") ",\"b\":" T("U8", "1", "2,3") "}", 3, "'b' leaves a gap"},
        {"{\"a\":" T("U8", "1", "0,1") "}", 3, "2 bytes follow"},
        {"{\"__metadata__\":7}", 0, "metadata are not"},
        {"{\"__metadata__\":{\"k\":7}}", 0, "metadata 'k' is not a string"},
        {"{\"__metadata__\":{\"file_crc32\":\"12345678\"}}", 0, "checksum"},
        {"{\"a\\nb\\u001b[31m\\u00e9\":7}", 0, "'a?b?[31m?\?' has no type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_parts("bad", cases[i].header, cases[i].data_bytes);
        assert_refused("bad", STATUS_DATA, cases[i].says);
    }
    static const char *const open[] = {"[", "{\"a\":"}; /* nested deeply */
    for (int i = 0; i < 2; i++) {
        char header[16001] = "";
        for (size_t used = 0; used + strlen(open[i]) < sizeof header; used += strlen(open[i]))
            strcpy(header + used, open[i]);
        put_parts("deep", header, 0);
        assert_refused("deep", STATUS_DATA, "not JSON");
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

/* The first bytes of files of torch.save, in its two formats, and of an archive of numpy. */
static void test_files_of_pytorch(void **state)
{
    static const struct {
        const char bytes[64], *says, *hides;
    } cases[] = {
        {"PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\n\0\30\0x/data.pklFB",
         "is a PyTorch file, not safetensors; convert it: python3 -c", "damaged"},
        {"\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\31.\x80\2M\xe9\3.",
         "s.save_file(d.get('state_dict', d.get('model', d)), 'x.pth.safetensors')", "damaged"},
        {"PK\3\4\24\0\0\0\0\0\0\0!\0\x7a\x9f\xf4h\xff\xff\xff\xff\xff\xff\xff\xff\5\0\24\0a.npy",
         "of another format", "PyTorch"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write(".", "x.pth", cases[i].bytes, sizeof cases[i].bytes);
        assert_refused("x.pth", STATUS_DATA, cases[i].says);
        assert_null(strstr(status_message(), cases[i].hides));
    }
}

static void test_damaged_files(void **state)
{
    static const struct {
        unsigned char first, others; /* the bytes of the header's length */
        size_t size;
        const char *says;
    } cases[] = {{0, 0, 0, "too few"},
                 {0, 0, 7, "too few"},
                 {0, 0, 8, "not JSON"},
                 {57, 0, 64, "header of 57 bytes ends past"},
                 {255, 255, 64, "more than the format's"}};
    assert_refused("absent", STATUS_DATA, "cannot open");
    assert_refused(".", STATUS_DATA, "not a regular file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_refused("pipe", STATUS_DATA, "not a regular file");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[64] = {0};
        memset(bytes, cases[i].others, 8);
        bytes[0] = cases[i].first;
        scratch_write(".", "bad", bytes, cases[i].size);
        assert_refused("bad", STATUS_DATA, cases[i].says);
    }
}

/* The checksum finds each single wrong bit. A wrong bit in the name of the checksum's key removes
 * the checksum, but leaves the tensors intact. */
static void test_each_bit_counts(void **state)
{
    size_t size, unchecked = 0;
    write_sample("a.safetensors");
    char *bytes = scratch_read(".", "a.safetensors", &size);
    for (size_t i = 0; i < size * 8; i++) {
        struct safetensors *f;
        bytes[i / 8] ^= (char)(1 << i % 8);
        scratch_write(".", "mutant", bytes, size);
        if (safetensors_open("mutant", &f) == STATUS_OK) {
            if (safetensors_checked(f))
                fail_msg("a change of bit %zu of byte %zu is not found", i % 8, i / 8);
            assert_holds_sample(f);
            unchecked++;
            safetensors_close(f);
        } else {
            assert_non_null(strstr(status_message(), "'mutant'"));
        }
        bytes[i / 8] ^= (char)(1 << i % 8);
    }
    assert_in_range(unchecked, 1, 8 * strlen("file_crc32"));
    free(bytes);
}

static void test_each_length_counts(void **state)
{
    size_t size;
    write_sample("a.safetensors");
    char *bytes = scratch_read(".", "a.safetensors", &size);
    for (size_t length = 0; length <= size + 1; length++) {
        struct safetensors *f;
        scratch_write(".", "short", bytes,
                      length); /* the byte after the end is scratch_read's NUL */
        enum status st = safetensors_open("short", &f);
        assert_int_equal(st, length == size ? STATUS_OK : STATUS_DATA);
        safetensors_close(f);
    }
    free(bytes);
}

/* Exchanges files with safetensors_peer.py, in the folder that is the suite's argument. */
static void test_python(void **state)
{
    struct safetensors *f;
    assert_int_equal(chdir(suite_argv[1]), 0);
    write_sample("ours");
    assert_int_equal(safetensors_open("theirs", &f), STATUS_OK);
    assert_holds_sample(f);
    assert_false(safetensors_checked(f));
    safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_nowhere_to_write),
        cmocka_unit_test(test_damaged_headers),  cmocka_unit_test(test_plain_header_is_read),
        cmocka_unit_test(test_files_of_pytorch), cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_each_bit_counts),  cmocka_unit_test(test_each_length_counts),
    };
    const struct CMUnitTest peer[] = {cmocka_unit_test(test_python)};
    if (suite_argc > 1)
        return cmocka_run_group_tests_name("safetensors of Python", peer, NULL, NULL);
    return cmocka_run_group_tests_name("safetensors", tests, enter_folder, scratch_tear_down);
}
