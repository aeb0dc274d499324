/* Tests that files and folders are intact after a failure or a kill, and that locks hold. */
#include "base/file.h"
#include "base/folder.h"
#include "tests/unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns "<folder of the test>/<name>", valid for three more calls. */
static const char *in(void **state, const char *name)
{
    static char path[4][SCRATCH_MAX + 64];
    static int n;
    n = (n + 1) % 4;
    snprintf(path[n], sizeof path[n], "%s/%s", (char *)*state, name);
    return path[n];
}

static void put(void **state, const char *name)
{
    scratch_write(*state, name, name, strlen(name));
}

static void holds(void **state, const char *name, const char *want)
{
    size_t size;
    char *bytes = scratch_read(*state, name, &size);
    assert_string_equal(bytes, want);
    free(bytes);
}

static void test_atomic_file(void **state)
{
    struct atomic_file f;
    struct words names = {0};
    char *bytes;
    size_t size;
    assert_int_equal(file_replace(in(state, "f"), "old", 3), STATUS_OK);
    assert_int_equal(atomic_file_open(&f, in(state, "f")), STATUS_OK);
    fputs("new", f.stream);
    atomic_file_abandon(&f);
    holds(state, "f", "old");
    assert_int_equal(file_read(in(state, "f"), 2, &bytes, &size), STATUS_DATA);
    assert_int_equal(file_read(*state, 100, &bytes, &size), STATUS_DATA);
    assert_int_equal(atomic_file_open(&f, in(state, "none/f")), STATUS_IO);
    assert_int_equal(dir_list(*state, "", &names), STATUS_OK);
    assert_int_equal(names.n, 1); /* no temporary file is left */
    words_free(&names);
}

/* The names in a folder are sorted by their bytes. Hidden files are left out. */
static void test_list(void **state)
{
    struct words names = {0};
    put(state, "b.svg");
    put(state, "B.txt");
    put(state, ".hidden.svg");
    assert_int_equal(dir_list(*state, "", &names), STATUS_OK);
    assert_int_equal(dir_list(*state, ".svg", &names), STATUS_OK);
    assert_int_equal(names.n, 3);
    assert_string_equal(names.v[0], "B.txt");
    assert_string_equal(names.v[1], "b.svg");
    assert_string_equal(names.v[2], "b.svg");
    words_free(&names);
    assert_int_equal(dir_list("no such folder", "", &names), STATUS_DATA);
}

/* The temporary files of a process that has ended are removed. Files with similar names stay. */
static void test_sweep(void **state)
{
    static const char *const swept[] = {"a.json.ampscale-tmp.0000000000000000",
                                        "c.ampscale-tmp.0123456789abcdef"};
    static const char *const kept[] = {"a.json",
                                       "b.tmp.4194304",
                                       "c.tmp.0123456789abcdef",
                                       ".ampscale-tmp.0123456789abcdef",
                                       "c.ampscale-tmp.0123456789abcde",
                                       "c.ampscale-tmp.0123456789abcdeF",
                                       "d.ampscale-tmp.0123456789abcdef"};
    assert_int_equal(mkfifo(in(state, "p.ampscale-tmp.0123456789abcdef"), 0600), 0);
    for (int i = 0; i < COUNT(swept); i++)
        put(state, swept[i]);
    for (int i = 0; i < COUNT(kept); i++)
        put(state, kept[i]);
    int writer = open(in(state, "d.ampscale-tmp.0123456789abcdef"), O_RDWR);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    atomic_file_sweep(*state);
    atomic_file_sweep("no such folder");
    close(writer);
    assert_true(path_exists(in(state, "p.ampscale-tmp.0123456789abcdef")));
    for (int i = 0; i < COUNT(swept); i++)
        assert_false(path_exists(in(state, swept[i])));
    for (int i = 0; i < COUNT(kept); i++)
        holds(state, kept[i], kept[i]);
}

/* If a process is killed while it writes a file, a temporary file is left, which the next write of
 * the same file removes. A temporary file that is being written stays, and so do the temporary
 * files of other files. */
static void test_left_over(void **state)
{
#define LEFT ".ampscale-tmp.0123456789abcdef"
    static const char *const kept[] = {"f.ampscale-tmp.0123456789abcde0",
                                       "f.tmp.1",
                                       "f" LEFT ".tmp",
                                       "ff" LEFT,
                                       "f.f" LEFT,
                                       "f.tmp"};
    struct atomic_file f;
    for (int i = 0; i < COUNT(kept); i++)
        put(state, kept[i]);
    put(state, "f" LEFT);
    int writer = open(in(state, kept[0]), O_RDWR);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    assert_int_equal(atomic_file_open(&f, in(state, "f")), STATUS_OK);
    assert_false(path_exists(in(state, "f" LEFT)));
    int other = open(f.temp, O_RDWR);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1); /* the writer has locked the file */
    close(other);
    assert_int_equal(atomic_file_commit(&f), STATUS_OK);
    close(writer);
    for (int i = 0; i < COUNT(kept); i++)
        holds(state, kept[i], kept[i]);
    holds(state, "f", "");
}

/* A file that the program names replaces a link or a pipe that is there; logs refuse both. Two
 * temporary files of one file have different names. */
static void test_links(void **state)
{
    struct atomic_file a, b;
    struct stat s;
    int fd;
    put(state, "victim");
    assert_int_equal(symlink(in(state, "victim"), in(state, "f")), 0);
    assert_int_equal(mkfifo(in(state, "p"), 0600), 0);
    assert_int_equal(log_open(in(state, "f"), O_WRONLY, &fd), STATUS_IO);
    assert_int_equal(log_open(in(state, "p"), O_WRONLY, &fd), STATUS_IO);
    assert_int_equal(log_open(in(state, "p"), O_RDWR | O_TRUNC, &fd), STATUS_IO);
    assert_int_equal(file_replace(in(state, "f"), "new", 3), STATUS_OK);
    assert_int_equal(file_replace(in(state, "p"), "new", 3), STATUS_OK);
    assert_true(lstat(in(state, "f"), &s) == 0 && S_ISREG(s.st_mode));
    holds(state, "victim", "victim");
    holds(state, "p", "new");
    assert_int_equal(atomic_file_open(&a, in(state, "f")), STATUS_OK);
    assert_int_equal(atomic_file_open(&b, in(state, "f")), STATUS_OK);
    assert_string_not_equal(a.temp, b.temp);
    atomic_file_abandon(&a);
    atomic_file_abandon(&b);
}

/* The kernel says that a file of /sys is longer than what can be read, as a file is that becomes
 * shorter while it is read. */
static void test_shorter(void **state)
{
    static const char path[] = "/sys/devices/system/cpu/online";
    struct stat s;
    char *bytes, line[4096];
    size_t size;
    (void)state;
    if (stat(path, &s) != 0 || !file_first_line(path, line, sizeof line) ||
        s.st_size <= (off_t)strlen(line) + 1)
        skip();
    assert_int_equal(file_read(path, 1 << 20, &bytes, &size), STATUS_IO);
    assert_non_null(strstr(status_message(), "the file became shorter"));
}

/* When a temporary folder is made, unlocked temporary folders of the same kind are removed. */
static void test_temporary_dir(void **state)
{
    struct temporary_dir one = {{0}}, other = {{0}};
    assert_int_equal(dir_make(in(state, "a.ampscale-tmp.0123456789abcdef/b")), STATUS_OK);
    assert_int_equal(dir_make(in(state, "a-backup")), STATUS_OK); /* the user's */
    assert_int_equal(setenv("TMPDIR", *state, 1), 0);
    assert_int_equal(temporary_dir_make(&one, "/none", "a"), STATUS_OK);
    assert_false(path_exists(in(state, "a.ampscale-tmp.0123456789abcdef")));
    assert_true(path_exists(in(state, "a-backup")));
    assert_int_equal(temporary_dir_make(&other, "/none", "a"), STATUS_OK);
    assert_true(path_exists(one.path) && path_exists(other.path));
    assert_string_not_equal(one.path, other.path);
    assert_int_equal(temporary_dir_remove(&one), STATUS_OK);
    assert_int_equal(temporary_dir_remove(&one), STATUS_OK);
    assert_true(path_exists(other.path));
    assert_int_equal(temporary_dir_remove(&other), STATUS_OK);
    assert_int_equal(setenv("TMPDIR", "", 1), 0);
    assert_int_equal(temporary_dir_make(&one, "/none", "a"), STATUS_IO);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* Removing a folder removes all its contents, but not the target of a symbolic link in it. */
static void test_remove(void **state)
{
    assert_int_equal(dir_make(in(state, "a/b")), STATUS_OK);
    put(state, "kept");
    put(state, "file");
    assert_int_equal(file_replace(in(state, "a/b/file"), "x", 1), STATUS_OK);
    assert_int_equal(symlink(in(state, "kept"), in(state, "a/link")), 0);
    for (int i = 0; i < 2; i++) { /* the second time, the folder does not exist any more */
        assert_int_equal(dir_remove(in(state, "a")), STATUS_OK);
        assert_int_equal(file_remove(in(state, "file")), STATUS_OK);
        assert_false(path_exists(in(state, "a")) || path_exists(in(state, "file")));
    }
    holds(state, "kept", "kept");
    assert_int_equal(dir_remove("/proc/self/status"), STATUS_IO);
    assert_int_equal(file_remove(*state), STATUS_IO); /* the path is a folder */
    char long_name[302] = "";
    bool exists = true;
    memset(long_name, 'n', sizeof long_name - 1);
    assert_int_equal(path_look(long_name, &exists), STATUS_OK);
    assert_false(exists);
}

/* Another process does not get the lock until this process releases it. */
static void test_lock(void **state)
{
    int own, other, how;
    assert_int_equal(dir_lock(*state, "test", 0, &own), STATUS_OK);
    pid_t pid = fork();
    if (pid == 0)
        _exit(dir_lock(*state, "test", 0, &other) == STATUS_IO && other == -1 ? 0 : 1);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    close(own);
    assert_int_equal(dir_lock(*state, "test", 60, &own), STATUS_OK);
    close(own);
    assert_int_equal(dir_lock("no such folder", "test", 60, &own), STATUS_IO);
    assert_int_equal(own, -1);
}

/* A process that waits gets the lock as soon as it is released. */
static void test_wait_for_lock(void **state)
{
    int own, end[2], how;
    char byte;
    assert_int_equal(pipe(end), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool held = dir_lock(*state, "test", 0, &own) == STATUS_OK && write(end[1], "1", 1) == 1;
        usleep(300000);
        _exit(held ? 0 : 1);
    }
    close(end[1]); /* so that the read ends even if the child fails */
    assert_int_equal(read(end[0], &byte, 1), 1);
    assert_int_equal(dir_lock(*state, "test", 60, &own), STATUS_OK);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    close(own);
    close(end[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_atomic_file),    IN_FOLDER(test_sweep),         IN_FOLDER(test_left_over),
        IN_FOLDER(test_links),          IN_FOLDER(test_temporary_dir), IN_FOLDER(test_remove),
        IN_FOLDER(test_lock),           IN_FOLDER(test_wait_for_lock), IN_FOLDER(test_list),
        cmocka_unit_test(test_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
