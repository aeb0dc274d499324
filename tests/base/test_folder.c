/* Tests names in folders, locks on folders, and the removal of files. */
#include "../results/scratch.h"
#include "base/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_list(void **state)
{
    struct words names = {0};
    scratch_write(*state, "b.svg", "", 0);
    scratch_write(*state, "B.txt", "", 0);
    scratch_write(*state, ".hidden", "", 0);
    assert_int_equal(dir_list(*state, "", &names), STATUS_OK);
    assert_int_equal(names.n, 2);
    assert_string_equal(names.v[0], "B.txt");
    assert_string_equal(names.v[1], "b.svg");
    assert_int_equal(dir_list(*state, ".svg", &names), STATUS_OK);
    assert_int_equal(names.n, 3);
    assert_string_equal(names.v[2], "b.svg");
    words_free(&names);
    assert_int_equal(dir_list("no such folder", "", &names), STATUS_DATA);
    assert_non_null(strstr(status_message(), "cannot open 'no such folder'"));
}

/* Another process does not get the lock until this process releases it. */
static void test_lock(void **state)
{
    int own, other, how;
    assert_int_equal(dir_lock(*state, "test", 0, &own), STATUS_OK);
    pid_t pid = fork();
    if (pid == 0)
        _exit(dir_lock(*state, "test", 0, &other) == STATUS_IO && other == -1 &&
                      strstr(status_message(), "another 'test' is using")
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    close(own);
    assert_int_equal(dir_lock(*state, NULL, 0, &own), STATUS_OK);
    close(own);
    assert_int_equal(dir_lock("no such folder", "test", 60, &own), STATUS_IO);
    assert_int_equal(own, -1);
}

/* A process that waits gets the lock as soon as it is released. */
static void test_patience(void **state)
{
    int own, end[2];
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
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    close(own);
    close(end[0]);
}

static void test_remove(void **state)
{
    char path[SCRATCH_MAX + 8];
    snprintf(path, sizeof path, "%s/file", (char *)*state);
    scratch_write(*state, "file", "x", 1);
    assert_int_equal(file_remove(path), STATUS_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(file_remove(path), STATUS_OK);
    assert_int_equal(file_remove(*state), STATUS_IO); /* the path is a folder */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_list, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_lock, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_patience, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(test_remove, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
